"""What the link table and the link check want to know of a page beyond its links: their texts and
marks, what the page embeds, and where in it a fragment can lead. Read only where asked for; the
crawl itself goes by links.py, of which this is a slower sibling.

Pure: knows nothing of Scrapy, Redis, scope or files.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

from crawlproj.discover import markup
from crawlproj.discover.links import MAX_LINKS, Page, Reader, candidates, decode

MAX_TEXT = 200
"""Characters of a link's text that are kept."""
MAX_IDS = 20_000
"""Places in one page that fragments can lead to."""

_LOOK = 1000
"""Characters after a link's tag in which its text is looked for, where it is more than text."""
_ANCHOR = re.compile(r"/?[aA](?![^\s/])")
"""The next link, or the end of this one, after its `<`."""

_EMBEDS = {
    **dict.fromkeys(("img", "source"), ("src", "srcset")),
    **dict.fromkeys(("script", "audio", "track", "embed", "iframe", "input"), ("src",)),
    "video": ("src", "poster"),
    "object": ("data",),
    "link": ("href",),
}
"""Elements that have a page show or run something else, and the attributes that say what."""
_EMBEDDING_RELS = frozenset(
    {"stylesheet", "icon", "apple-touch-icon", "mask-icon", "preload", "modulepreload", "manifest"}
)
"""What `<link rel>` says of those among them; the others are about the page."""


Found = tuple[str, ...]
"""Href, text and, if it has one, rel of a link as the page has them, not yet resolved, unescaped or
cut. (Named tuples take three times as long to make, for each link of each page.)"""


class Details(NamedTuple):
    """A page, with all that is kept of its links."""

    page: Page
    found: list[Found]
    """In the order of the page, perhaps more than once; also those that are not followed."""
    kept_back: list[str]
    """Hrefs of those that are marked `nofollow`, where the crawl heeds that."""
    embedded: list[Found]
    """What the page embeds; `rel` is the element, or what `<link>` says. Nothing to resolve a
    text from."""
    ids: frozenset[str]


def read(
    body: bytes,
    encoding: str | None = None,
    *,
    max_links: int = MAX_LINKS,
    images: bool = False,
    skip_nofollow: bool = False,
    embedded: bool = False,
    ids: bool = False,
) -> Details:
    """Read a page as `links.extract` does, and what more is wanted of it."""
    text, used = decode(body, encoding)
    if text is None:
        return Details(Page("", [], encoding=used), [], [], [], frozenset())
    reader = DetailReader(text, used, max_links, images, skip_nofollow)
    page = reader.read()
    things: dict[Found, None] = {}
    places: set[str] = set()
    for tag, attributes in markup.start_tags(text) if embedded or ids else ():
        if embedded and tag in _EMBEDS and len(things) < max_links:
            things.update(dict.fromkeys(_embedded(tag, attributes)))
        if ids and len(places) < MAX_IDS:
            places.update(_ids(tag, attributes))
    found, kept_back = reader.found, list(reader.kept_back)
    return Details(page, found, kept_back, list(things)[:max_links], frozenset(places))


class DetailReader(Reader):
    """Keeps what a link says beside where it leads, of as many links as are kept. The others are
    still links to follow, or not to."""

    def _scan(self) -> None:
        self.found: list[Found] = []
        self.kept_back: dict[str, None] = {}
        found, most, add = self.found, self.max_links, self._add
        for match in markup.scanner(self.images, texts=True).finditer(self.text):
            kind = match.lastgroup
            if kind == "text":
                link = match.group("plain", "text")
                href = link[0]
                if href is not None and "&" not in href:
                    if len(found) < most:
                        found.append(link)
                    add(href)
                else:
                    self._keep(match)
            elif kind in markup.HREFS:
                self._keep(match)
            elif kind and not self._heed(kind, match):
                break

    def _keep(self, match: re.Match[str]) -> None:
        href = next(filter(None, match.group(*markup.HREFS)), "")
        if not href:
            return
        is_kept = len(self.found) < self.max_links
        # What the scanner calls plain has no rel.
        may_matter = match["plain"] is None and (is_kept or self.skip_nofollow)
        rel = self.attributes_of(match).get("rel", "") if may_matter else ""
        plain = markup.unescape(href)
        if is_kept:
            self.found.append((plain, self.label_of(match), rel))
        if not (rel and self.skip_nofollow and "nofollow" in rel.lower().split()):
            self._add(plain)
        elif len(self.kept_back) < self.max_links:
            self.kept_back[plain] = None

    def attributes_of(self, match: re.Match[str]) -> dict[str, str]:
        return markup.attributes_of(self.text[match.end("anchor") : self._end_of(match) - 1])

    def _end_of(self, match: re.Match[str]) -> int:
        """Where the tag ends, and the text of the link begins."""
        return match.start("text") if match["text"] is not None else match.end()

    def label_of(self, match: re.Match[str]) -> str:
        """The text of a link. One that holds other tags has it up to its end or the next link, and
        what stands for the images in it; an area has what stands for that."""
        if match["text"] is not None:
            return match["text"]
        if self.text[match.start("anchor") - 2] != "<":
            return self.attributes_of(match).get("alt", "")
        begin = match.end()
        pieces = self.text[begin : begin + _LOOK].split("<")
        said = [pieces[0]]
        for piece in pieces[1:]:
            tag, _, text = piece.partition(">")
            if _ANCHOR.match(tag):
                break
            if tag[:4].lower() == "img ":
                said.append(html.escape(markup.attributes_of(tag[4:]).get("alt", "")))
            said.append(text)
        return " ".join(said)


def label(text: str) -> str:
    """What a link says, as it is kept: one line, of bounded length."""
    text = text[: 4 * MAX_TEXT]
    if "&" in text:
        text = html.unescape(text)
    return " ".join(text.split())[:MAX_TEXT]


def _embedded(tag: str, text: str) -> Iterator[Found]:
    """What an element embeds, by its attributes."""
    said = markup.attributes_of(text)
    rel = said.get("rel", "").lower() if tag == "link" else tag
    if tag == "link" and _EMBEDDING_RELS.isdisjoint(rel.split()):
        return
    for name in _EMBEDS[tag]:
        values = candidates(said.get(name, "")) if name == "srcset" else [said.get(name, "")]
        yield from ((value, said.get("alt", ""), rel) for value in values if value)


def _ids(tag: str, text: str) -> Iterator[str]:
    """The id of an element, and the name of an anchor."""
    lower = text.lower()
    if "id" in lower or (tag == "a" and "name" in lower):
        said = markup.attributes_of(text)
        yield from (said[name] for name in ("id", "name") if name in said and _names(tag, name))


def _names(tag: str, attribute: str) -> bool:
    return attribute == "id" or tag == "a"


def fragment_of(href: str) -> str:
    """Where in its page a link leads, as an id would be spelled; '' for the page as a whole, to
    which `#top` leads too, for text to search for (`#:~:text=…`), and for the state of a program
    that runs in the page (`#/a`, `#!a`)."""
    fragment = href.partition("#")[2].partition(":~:")[0]
    decoded = unquote(fragment)
    return "" if decoded.lower() == "top" or decoded.startswith(("/", "!")) else decoded
