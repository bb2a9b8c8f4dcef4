"""Which attribute of a page comes from where: the sources of each, the most trusted first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from crawlproj.output.attributes.dates import date_in_path, read_date
from crawlproj.output.attributes.facts import (
    MAX_VALUE,
    Elements,
    Facts,
    one_line,
    text_of_value,
    without_tags,
)
from crawlproj.output.attributes.structured import Structured, names_in, types_of
from crawlproj.output.attributes.text import language_of, main_text
from crawlproj.possessive import compiled

NAMES = (
    *("title", "description", "language", "published", "modified", "author", "owner", "text"),
    *("videos", "canonical", "structured"),
)
"""Of what is read, in the order of a row."""

MAX_MARKUP = 600_000
"""Characters of a page that are looked at."""
MOST_VIDEOS = 50
MAX_NAME = 200
MAX_TAIL, MOST_NOTICES = 60_000, 20
"""Characters at the end of a page in which a copyright is looked for, and signs of it."""

_PUBLISHED = (
    *("article:published_time", "og:article:published_time", "datepublished", "dc.date.issued"),
    *("dcterms.issued", "dc.date.created", "dcterms.created", "citation_publication_date"),
    *("parsely-pub-date", "sailthru.date", "publish-date", "publish_date", "publication_date"),
    *("pubdate", "dc.date", "dcterms.date", "date", "article.published", "cxenseparse:publishtime"),
)
_MODIFIED = (
    *("article:modified_time", "og:article:modified_time", "og:updated_time", "datemodified"),
    *("dcterms.modified", "dc.date.modified", "last-modified", "lastmod", "revised"),
)
_AUTHORS = (
    *("author", "article:author", "og:article:author", "dc.creator", "dcterms.creator"),
    *("citation_author", "parsely-author", "sailthru.author", "byl", "twitter:data1"),
)
_HEADING = Elements("h1", b"<h1")
_TIME = Elements("time", b"<time")
_TIMES = Elements(
    "time[pubdate], time[class*=publish], [class*=published][datetime], article time[datetime]",
    b"time",
)
_UPDATED = Elements("time[class*=updated], time[class*=modif]", b"<time")
_DATED = Elements("[class*=publish], [class*=entry-date], [class*=post-date], [class*=dateline]")
_BYLINES = Elements("[rel=author], [class~=author], [class*=byline], [class*=author-name]")
_VIDEO = Elements("video[src], video source[src]", b"<video")
_FRAME = Elements("iframe", b"<iframe")
_BY = re.compile(r"^(?:by|von|par|por|di|da|door|written by|author)\b[\s:]*", re.IGNORECASE)

_SIGNS = (
    *("©", "&copy;", "&#169;", "&#xa9;", "&#xA9;", "(c)", "(C)"),
    *("copyright", "Copyright", "COPYRIGHT"),
)
"""Of a copyright. To look for each takes a tenth of what a pattern for all takes."""
_YEAR_FOLLOWS = re.compile(r"...\s*(?:19|20)\d\d")
_YEARS = r"(?:(?:19|20)\d\d(?:\s*[-–—,/]\s*(?:(?:19|20)?\d\d|present|today|heute))?)"
_OWNER = compiled(
    # Nothing of it is given back (`*+`): a list of years can be read in a million ways.
    rf"(?:©|\(c\)|copyright|by|{_YEARS}|[\s,:;.|–-])*+(?P<name>[^\W\d_][^|•·©\n]{{1,120}}?)"
    rf"(?=\s*(?:[|•·©]|{_YEARS}|all rights|alle rechte|tous droits|todos los|tutti i|\.\s|\.?$))",
    re.IGNORECASE,
)

_PLAYERS = re.compile(
    r"(?:^|\.)(?:youtube(?:-nocookie)?\.com/(?:embed|v|shorts|live)/|youtu\.be/|player\.vimeo\.com/"
    r"|vimeo\.com/video|dailymotion\.com/(?:embed|player)|geo\.dailymotion\.com/|wistia\.(?:com|net)/"
    r"|player\.twitch\.tv/|clips\.twitch\.tv/|players\.brightcove\.net/|cdn\.jwplayer\.com/"
    r"|loom\.com/embed|embed\.ted\.com/|player\.bilibili\.com/|rutube\.ru/play|vk\.com/video_ext"
    r"|streamable\.com/|facebook\.com/plugins/video|tiktok\.com/embed|fast\.wistia)"
    r"|/videos?/embed/|/embed/video",
    re.IGNORECASE,
)


def read_attributes(markup: str, url: str, declared: str, canonical: str) -> dict[str, Any]:
    """The attributes of a page; `declared` is the language that it or its server names, and
    `canonical` what it says of its URL, if that is known already."""
    facts = Facts(markup[:MAX_MARKUP], url)
    structured = Structured(facts)
    said = declared or facts.meta("og:locale", "content-language", "dc.language")
    found = {
        "title": _title(facts, structured),
        "description": _first_text(
            facts.meta("description", "og:description", "twitter:description", "dc.description"),
            structured.value("description"),
        ),
        "published": _published(facts, structured),
        "modified": _modified(facts, structured),
        "author": _author(facts, structured),
        "owner": _owner(facts, structured),
        "videos": _videos(facts, structured),
        "canonical": canonical or facts.absolute(facts.meta("og:url")),
        "structured": structured.as_json(),
    }
    text = main_text(facts)
    return {**found, "text": text, "language": language_of(text, said)}


def _first_text(*values: Any) -> str | None:
    for value in values:
        if isinstance(value, str) and (line := text_of_value(value[:MAX_VALUE])):
            return line
    return None


def _title(facts: Facts, structured: Structured) -> str | None:
    named = _first_text(
        facts.meta("og:title"), structured.value("headline"), facts.meta("twitter:title")
    )
    # What a reader sees of an element is its text already: a tag in it is one that it tells of.
    shown = (facts.tree.title, facts.text_of(_HEADING))
    return named or next(filter(None, (one_line((text or "")[:MAX_VALUE]) for text in shown)), None)


# Dates


def _first_date(values: Iterable[Any]) -> str | None:
    texts = (value for value in values if isinstance(value, str))
    return next(filter(None, map(read_date, texts)), None)


def _published(facts: Facts, structured: Structured) -> str | None:
    return _first_date(
        _of_metas(structured, facts, _PUBLISHED, "datePublished", "dateCreated")
    ) or (_first_date(_times(facts)) or date_in_path(facts.url))


def _modified(facts: Facts, structured: Structured) -> str | None:
    return _first_date(_of_metas(structured, facts, _MODIFIED, "dateModified")) or _first_date(
        node.getattr("datetime") for node in facts.all(_UPDATED, 3)
    )


def _of_metas(
    structured: Structured, facts: Facts, metas: tuple[str, ...], *names: str
) -> Iterator[Any]:
    yield structured.value(*names)
    for name in metas:
        yield from facts.metas.get(name, ())


def _times(facts: Facts) -> Iterator[str]:
    """What `<time>` says, or what is marked as a date."""
    for node in facts.all(_TIMES, 5):
        yield node.getattr("datetime") or one_line(node.text[:MAX_NAME])
    for node in facts.all(_DATED, 5):
        yield one_line(node.text[:MAX_NAME])
    found = list(facts.all(_TIME, 3))
    if len(found) == 1:
        yield found[0].getattr("datetime") or one_line(found[0].text[:MAX_NAME])


# Who


def _author(facts: Facts, structured: Structured) -> str | None:
    names = names_in(structured.value("author", "creator"))
    for name in () if names else _AUTHORS:
        if names := names_in(facts.metas.get(name, [])):
            break
    if not names and (line := facts.text_of(_BYLINES)) and len(line) <= MAX_NAME // 2:
        names = [line]
    found = ", ".join(filter(None, (_BY.sub("", name).strip(" ,") for name in names)))
    return found[:MAX_NAME] or None


def _owner(facts: Facts, structured: Structured) -> str | None:
    """Who has the copyright."""
    names = names_in(structured.value("copyrightHolder"))
    if not names and (
        said := facts.meta("copyright", "dcterms.rightsholder", "dc.rights", "rights")
    ):
        names = [_holder(said) or said]
    if not names:
        names = list(filter(None, map(_holder, _notices(facts.markup))))[-1:]
    if not names:
        names = names_in(structured.value("publisher"))
    return names[0][:MAX_NAME] if names else None


def _notices(markup: str) -> Iterator[str]:
    """Lines with a sign of copyright near the end of a page, where its own is."""
    tail = markup[-MAX_TAIL:]
    for at in sorted(_places(tail))[-MOST_NOTICES:]:
        line = tail[at : at + 2 * MAX_NAME]
        yield without_tags(line.rpartition("<")[0] or line)


def _places(text: str) -> Iterator[int]:
    """Where the signs stand; a letter in brackets is one if a year follows."""
    for sign in _SIGNS:
        at = text.find(sign)
        while at >= 0:
            if sign[0] != "(" or _YEAR_FOLLOWS.match(text, at):
                yield at
            at = text.find(sign, at + 1)


def _holder(notice: str) -> str | None:
    found = _OWNER.match(notice)
    name = found["name"].strip(" .,;:-–—") if found else ""
    return name if len(name) > 1 and "{" not in name and "=" not in name else None


# Videos


def _videos(facts: Facts, structured: Structured) -> list[str]:
    found: dict[str, None] = {}
    for href in _video_addresses(facts, structured):
        if (url := facts.absolute(href)) is not None:
            found[url] = None
        if len(found) == MOST_VIDEOS:
            break
    return list(found)


def _video_addresses(facts: Facts, structured: Structured) -> Iterator[str]:
    for name in ("og:video:secure_url", "og:video:url", "og:video", "twitter:player"):
        yield from facts.metas.get(name, ())
    for node in structured.nodes:
        if any(one.endswith("VideoObject") for one in types_of(node)):
            values = node.get("contentUrl"), node.get("embedUrl")
            yield from (value for value in values if isinstance(value, str))
    for node in facts.all(_VIDEO, MOST_VIDEOS):
        yield node.getattr("src")
    for node in facts.all(_FRAME, MOST_VIDEOS):
        src = node.getattr("src") or node.getattr("data-src") or ""
        if src and _is_player(facts.absolute(src)):
            yield src


def _is_player(url: str | None) -> bool:
    if url is None:
        return False
    parts = urlsplit(url)
    return bool(_PLAYERS.search(f"{parts.netloc}{parts.path}"))
