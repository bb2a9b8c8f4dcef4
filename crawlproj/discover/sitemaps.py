"""What a sitemap says: the pages of a site, or further sitemaps (https://www.sitemaps.org). Pure.

A sitemap is hostile input. It is read by regular expressions and no XML parser: there are no
entities to expand and nothing outside to load, a file that is cut off or badly escaped yields what
it has, and time is linear in its size. A plain list of URLs, one a line, is a sitemap too; either
may be packed with gzip. (Scrapy's reader, on lxml, resolves no entities either, but its interface
may change without notice, and it knows neither plain lists nor limits.)
"""

from __future__ import annotations

import codecs
import html
import re
import zlib
from collections.abc import Iterator
from datetime import datetime
from math import isnan
from typing import NamedTuple

from crawlproj.possessive import compiled

MOST_BYTES = 50 * 1024 * 1024
"""How large a file may be, unpacked; by the protocol."""
MOST_URLS = 50_000
"""How many URLs of a file are read; by the protocol."""
MOST_BESIDE = 100
"""How many alternates of a page are read, and how many images and videos."""

_GZIP = b"\x1f\x8b"
_AS_GZIP = 31
_HEAD = 4096

_ROOT = re.compile(r"<(?:([A-Za-z_][\w.\-]{0,40}):)?(urlset|sitemapindex)(?=[\s>/])")
# Bounded, so that a million beginnings without an end are not each followed to the end.
_PLAIN, _QUOTED = r"[^<]{0,8192}+", r"<!\[CDATA\[[^\]]{0,8192}+\]\]>"
TEXT = rf"{_PLAIN}(?:{_QUOTED}{_PLAIN}){{0,8}}+"
COMMENT = r"<!--[^-]*+(?:-(?!->)[^-]*+)*+(?:-->|\Z)"
"""Patterns of what an XML element holds, and of a comment."""

CDATA = re.compile(r"<!\[CDATA\[([^\]]*+)\]\]>")
_ATTRIBUTE = re.compile(r"""([\w:.\-]{1,40})\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")
_DATE = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.\d*+)?(Z|z|[+-]\d\d:?\d\d)?)?)?)?"
)
_LINE = re.compile(r"^[ \t]*+(?P<loc>https?://\S++)[ \t\r]*+$", re.MULTILINE)


class TooLarge(Exception):
    """More than a sitemap may hold."""


class Entry(NamedTuple):
    """A page of a sitemap, or a further sitemap, with what is said of it; URLs as they are
    written."""

    url: str
    modified_s: int = 0
    """When it was last modified, or published if it is news, in seconds since 1970; 0: unsaid."""
    priority: float = 0.5
    """Among the pages of its site, from 0 to 1."""
    alternates: tuple[str, ...] = ()
    """The same page in other languages."""
    media: tuple[str, ...] = ()
    """Images and videos that it shows."""


class Sitemap(NamedTuple):
    """What a sitemap says; the entries of an index are sitemaps."""

    is_index: bool
    entries: list[Entry]
    overflow: bool = False
    """There were more than are read."""

    @property
    def urls(self) -> list[str]:
        """Of all entries, in their order."""
        return [entry.url for entry in self.entries]


def read(body: bytes, most_bytes: int = MOST_BYTES, most_urls: int = MOST_URLS) -> Sitemap:
    """Read whatever is there; TooLarge if it unpacks to more than it may."""
    text = text_of(unpacked(body, most_bytes))
    root = _ROOT.search(text, 0, _HEAD)
    is_index = root is not None and root[2] == "sitemapindex"
    found: dict[str, Entry] = {}
    for entry in _entries(text, root[1] or "") if root else _lines(text):
        if len(found) >= most_urls:
            return Sitemap(is_index, list(found.values()), overflow=True)
        found.setdefault(entry.url, entry)
    return Sitemap(is_index, list(found.values()))


def _lines(text: str) -> Iterator[Entry]:
    return (Entry(found["loc"]) for found in _LINE.finditer(text))


def _entries(text: str, prefix: str) -> Iterator[Entry]:
    """An entry for each `loc`, with what stands beside it; `<url>` begins the next."""
    entry = Entry("")
    for found in _tokens(prefix).finditer(text):
        url = plain(found["text"] or "") if found["name"] == "loc" else ""
        if found["begin"] or (url and entry.url):
            if entry.url:
                yield entry
            entry = Entry("")
        entry = entry._replace(url=url) if url else _with(entry, found)
    if entry.url:
        yield entry


def _with(entry: Entry, found: re.Match[str]) -> Entry:
    """An entry after one of its elements that is not its URL."""
    if found["name"] == "lastmod":
        return entry._replace(modified_s=w3c_seconds(plain(found["text"])) or entry.modified_s)
    if found["name"] == "priority":
        return entry._replace(priority=_priority(plain(found["text"]), entry.priority))
    if found["link"] is not None:
        said = attributes(found["link"])
        url = said.get("href", "") if said.get("rel") == "alternate" else ""
        return entry._replace(alternates=_and(entry.alternates, url))
    if found["other"] == "publication_date":
        return entry._replace(modified_s=entry.modified_s or w3c_seconds(plain(found["said"])))
    if found["other"]:
        return entry._replace(media=_and(entry.media, plain(found["said"])))
    return entry


def _and(known: tuple[str, ...], url: str) -> tuple[str, ...]:
    is_new = url and url not in known and len(known) < MOST_BESIDE
    return (*known, url) if is_new else known


def _priority(text: str, otherwise: float) -> float:
    try:
        value = float(text[:20])
    except ValueError:
        return otherwise
    return otherwise if isnan(value) else min(1.0, max(0.0, value))


def _tokens(prefix: str) -> re.Pattern[str]:
    """Elements of the namespace of the root, and some of others, by what they are called there:
    `image:loc` is no page. Comments are taken along, so that nothing inside one is found."""
    own = f"{re.escape(prefix)}:" if prefix else ""
    return compiled(
        rf"{COMMENT}"
        rf"|<{own}(?P<name>loc|lastmod|priority)\s{{0,100}}+>(?P<text>{TEXT})</{own}(?P=name)"
        rf"|(?P<begin><{own}(?:url|sitemap)[\s>])"
        rf"|<[A-Za-z_][\w.\-]{{0,40}}+:link(?P<link>\s[^<>]{{0,8192}}+)>"
        rf"|<[A-Za-z_][\w.\-]{{0,40}}+:(?P<other>loc|content_loc|player_loc|publication_date)"
        rf"(?:\s[^<>]{{0,1000}}+)?+>(?P<said>{TEXT})</"
    )


def attributes(text: str) -> dict[str, str]:
    """Of a tag, by their names."""
    found = _ATTRIBUTE.findall(text)
    return {name: html.unescape(double or single) for name, double, single in found}


def plain(text: str) -> str:
    """What an element holds."""
    return CDATA.sub(r"\1", html.unescape(text)).strip()


def w3c_seconds(text: str) -> int:
    """A date as sitemaps and Atom have it, with or without a time, in seconds since 1970; 0 if it
    is none."""
    found = _DATE.match(text)
    if not found:
        return 0
    year, month, day, time, zone = found.groups()
    date = f"{year}-{month or '01'}-{day or '01'}"
    zone = "+00:00" if zone in (None, "Z", "z") else f"{zone[:3]}:{zone[-2:]}"
    try:
        seconds = int(datetime.fromisoformat(f"{date}T{time or '00:00'}{zone}").timestamp())
    except (ValueError, OverflowError):
        return 0
    return seconds if 0 < seconds < 2**32 else 0


def unpacked(body: bytes, most_bytes: int) -> bytes:
    """A file without its gzip, if it has one; TooLarge if that is more than it may be."""
    if not body.startswith(_GZIP):
        if len(body) > most_bytes:
            raise TooLarge(f"a sitemap of more than {most_bytes} bytes")
        return body
    unpack = zlib.decompressobj(_AS_GZIP)
    try:
        whole = unpack.decompress(body, most_bytes + 1)
    except zlib.error:
        return b""
    if len(whole) > most_bytes:
        raise TooLarge(f"a sitemap that unpacks to more than {most_bytes} bytes")
    return whole


def text_of(body: bytes) -> str:
    """A file as text, whatever it may hold."""
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return body.decode("utf-16", "replace")
    return body.decode("utf-8-sig", "replace")
