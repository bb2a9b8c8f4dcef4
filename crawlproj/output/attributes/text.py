"""The text of a page without what stands around it, and its language."""

from __future__ import annotations

import re
from typing import Any

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree
from resiliparse.parse.lang import detect_fast

from crawlproj.output.attributes.facts import Elements, Facts

MAX_TEXT = 100_000
"""Characters of a text."""
MAX_JUDGED_MARKUP = 220_000
"""Characters of markup in which text is looked for: what few pages have more of would take most of
the time."""
MAX_JUDGED = 5000
"""Characters by which a language is told; more change nothing."""
LEAST_JUDGED = 60
"""Characters of a text whose language can be told."""
FARTHEST = 1200
"""From the profile of a language; beyond it is a guess."""

ABOUT_AS_NEAR = 1.03
# fmt: off
COMMON = frozenset((
    "en", "es", "de", "fr", "it", "pt", "ru", "ja", "zh", "nl", "pl", "tr", "ar", "fa", "id", "cs",
    "ko", "vi", "uk", "sv", "hu", "ro", "el",
))
# fmt: on
"""Languages that most pages are in."""

_BODIES = (
    Elements(
        "[itemprop=articleBody], [class*=article-body], [class*=article__body],"
        "[class*=entry-content], [class*=post-content], [class*=post-body],"
        "[class*=article-content], [class*=story-body]"
    ),
    Elements("article", b"<article"),
    Elements("main, [role=main]", b"main"),
)
"""Where the text of a page may stand, the narrowest first."""
MOST_BODIES = 60
"""Of one kind: a page with more of them is a list of others."""
MOST_COMPARED = 4
LEAST_BODY, LEAST_SHARE = 250, 0.1
"""Characters, and share of all text, that a body must have to be the page's."""

_PRIMARY = re.compile(r"[a-z]{2,3}(?=$|[-_])", re.IGNORECASE)


def main_text(facts: Facts) -> str | None:
    """What the page has to say; None if that is nothing. To be asked last: of the page nothing is
    left then but where its text stands."""
    body = _body(facts)
    is_long = len(facts.markup) > MAX_JUDGED_MARKUP
    found = _text_in(body, facts, is_long=is_long) if body is not None else ""
    if len(found) < LEAST_BODY:
        whole = facts.tree if body is None or is_long else HTMLTree.parse(facts.markup)
        is_cut = is_long and whole.body is not None
        found = _plain(whole.body.html[:MAX_JUDGED_MARKUP] if is_cut else whole)
    return found[:MAX_TEXT].rstrip() or None


def _text_in(body: Any, facts: Facts, *, is_long: bool) -> str:
    """The text of an element. To leave the page with nothing else is quicker than to parse the
    element once more."""
    if is_long:
        return _plain(body.html[:MAX_JUDGED_MARKUP])
    page = facts.tree.body
    if body.tag not in ("body", "html"):
        page.append_child(body)
        while page.first_child != body:
            page.remove_child(page.first_child)
    return _plain(facts.tree)


def _body(facts: Facts) -> Any:
    """The element that the text stands in; None if none is marked as that."""
    page = facts.tree.body
    most = len(page.text) if page is not None else 0
    for wanted in _BODIES:
        bodies = list(facts.all(wanted, MOST_BODIES + 1))
        if 1 <= len(bodies) <= MOST_BODIES:
            sizes = [len(body.text) for body in bodies[:MOST_COMPARED]]
            largest = max(sizes)
            if largest >= max(LEAST_BODY, LEAST_SHARE * most):
                return bodies[sizes.index(largest)]
    return None


def _plain(html: object) -> str:
    text = extract_plain_text(
        html, main_content=True, comments=False, links=False, alt_texts=False, list_bullets=False
    )
    return str(text).strip()


def language_of(text: str | None, declared: str | None) -> str | None:
    """The language of a text as a code such as `en`: the declared one if the text may be in it,
    else the one that the text is in, as far as that can be told."""
    found = _PRIMARY.match(declared.strip()) if declared else None
    said = found[0].lower() if found else None
    sample = (text or "")[:MAX_JUDGED]
    if len(sample) < LEAST_JUDGED:
        return said
    ranked = detect_fast(sample, n_results=3)
    likely = {name: rank for name, rank in ranked if rank <= FARTHEST and name != "unknown"}
    return said if not likely or said in likely else _likeliest(likely)


def _likeliest(likely: dict[str, int]) -> str:
    """The nearest; of those that are about as near, one that many pages are in."""
    nearest = min(likely.values())
    close = [name for name, rank in likely.items() if rank <= nearest * ABOUT_AS_NEAR]
    return next((name for name in close if name in COMMON), close[0])
