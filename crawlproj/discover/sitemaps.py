"""What a sitemap says: the pages of a site, or further sitemaps (https://www.sitemaps.org). Pure.

A sitemap is hostile input. It is read by two regular expressions and no XML parser: there are no
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
from typing import NamedTuple

MOST_BYTES = 50 * 1024 * 1024
"""How large a file may be, unpacked; by the protocol."""
MOST_URLS = 50_000
"""How many URLs of a file are read; by the protocol."""

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
_LINE = re.compile(r"^[ \t]*+(?P<loc>https?://\S++)[ \t\r]*+$", re.MULTILINE)


class TooLarge(Exception):
    """More than a sitemap may hold."""


class Sitemap(NamedTuple):
    """The URLs of a sitemap, as they are written there; those of an index are sitemaps."""

    is_index: bool
    urls: list[str]
    overflow: bool = False
    """There were more than are read."""


def read(body: bytes, most_bytes: int = MOST_BYTES, most_urls: int = MOST_URLS) -> Sitemap:
    """Read whatever is there; TooLarge if it unpacks to more than it may."""
    text = text_of(unpacked(body, most_bytes))
    root = _ROOT.search(text, 0, _HEAD)
    is_index = root is not None and root[2] == "sitemapindex"
    urls: dict[str, None] = {}
    for found in (_locations(root[1]) if root else _LINE).finditer(text):
        if len(urls) >= most_urls:
            return Sitemap(is_index, list(urls), overflow=True)
        if url := _url(found["loc"] or "", is_xml=root is not None):
            urls[url] = None
    return Sitemap(is_index, list(urls))


def _url(text: str, *, is_xml: bool) -> str:
    return CDATA.sub(r"\1", html.unescape(text)).strip() if is_xml else text


def _locations(prefix: str | None) -> re.Pattern[str]:
    """`loc` of the namespace of the root, and of no other: `image:loc` is no page. Comments are
    taken along, so that nothing inside one is found."""
    name = f"{re.escape(prefix)}:loc" if prefix else "loc"
    return re.compile(rf"{COMMENT}|<{name}\s{{0,100}}+>(?P<loc>{TEXT})</{name}")


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
