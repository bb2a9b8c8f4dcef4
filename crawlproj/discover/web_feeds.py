"""What an RSS or Atom feed says: the pages that its entries lead to. Pure.

A feed is hostile input. Like a sitemap (sitemaps.py) it is read by regular expressions and no XML
parser: there are no entities to expand and nothing outside to load, time is linear in its size, and
a file that is cut off or badly escaped yields what it has.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

from crawlproj.discover import sitemaps
from crawlproj.errors import CrawlError
from crawlproj.urls import absolute

_HEAD = 4096
_ROOT = re.compile(r"<(?:([A-Za-z_][\w.\-]{0,40}):)?(rss|feed|RDF)(?=[\s>/])")
_ATTRIBUTE = re.compile(r"""([\w:.\-]{1,40})\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")


class NoFeed(CrawlError):
    """Something else than a feed."""


class Feed(NamedTuple):
    """The URLs of a feed's entries in their order."""

    urls: list[str]
    overflow: bool = False
    """There were more than are read."""


class _Entry(NamedTuple):
    link: str = ""
    guid: str = ""


def read(
    body: bytes,
    base: str,
    most_bytes: int = sitemaps.MOST_BYTES,
    most_urls: int = sitemaps.MOST_URLS,
) -> Feed:
    """Read whatever is there; NoFeed if it is none, TooLarge if it unpacks to more than it may."""
    text = sitemaps.text_of(sitemaps.unpacked(body, most_bytes))
    root = _ROOT.search(text, 0, _HEAD)
    if root is None:
        raise NoFeed("neither RSS nor Atom")
    urls: dict[str, None] = {}
    for entry in _entries(text, (root[1] or "") if root[2] == "feed" else ""):
        if len(urls) >= most_urls:
            return Feed(list(urls), overflow=True)
        if url := entry.link or entry.guid:
            urls[absolute(url, base)] = None
    return Feed(list(urls))


def _entries(text: str, prefix: str) -> Iterator[_Entry]:
    """What each entry says of itself; links outside of one are the feed's own."""
    inside: _Entry | None = None
    for found in _tokens(prefix).finditer(text):
        if found["end"] and inside is not None:
            yield inside
            inside = None
        elif found["begin"]:
            inside = _Entry()
        elif inside is not None:
            inside = _with(inside, found)
    if inside is not None:
        yield inside


def _with(entry: _Entry, found: re.Match[str]) -> _Entry:
    """An entry after one of its elements: the first link to the page itself counts."""
    if found["link"] is not None and not entry.link:
        attributes = _attributes(found["link"])
        is_page = attributes.get("rel", "alternate") == "alternate"
        url = attributes.get("href") or _plain(found["link_text"])
        return entry._replace(link=url if is_page else "")
    if found["guid"] is not None and not entry.guid:
        is_url = _attributes(found["guid"]).get("isPermaLink", "true") != "false"
        url = _plain(found["guid_text"])
        is_url = is_url and url.startswith(("http://", "https://"))
        return entry._replace(guid=url if is_url else "")
    return entry


def _tokens(prefix: str) -> re.Pattern[str]:
    """Elements of the root's namespace, or of none: `atom:link` in RSS is the feed's own. Comments
    and quoted HTML are taken along, so that nothing inside is found."""
    name = f"{re.escape(prefix)}:" if prefix else ""
    inside = r"(?:[\s/][^<>]{0,8192}+)?+>"
    return re.compile(
        rf"{sitemaps.COMMENT}"
        rf"|<!\[CDATA\[[^\]]*+(?:\](?!\]>)[^\]]*+)*+(?:\]\]>|\Z)"
        rf"|(?P<begin><{name}(?:item|entry){inside})"
        rf"|(?P<end></{name}(?:item|entry)\s*+>)"
        rf"|<{name}link(?P<link>{inside})(?P<link_text>{sitemaps.TEXT})"
        rf"|<{name}guid(?P<guid>{inside})(?P<guid_text>{sitemaps.TEXT})"
    )


def _attributes(text: str) -> dict[str, str]:
    return {
        name: html.unescape(double or single) for name, double, single in _ATTRIBUTE.findall(text)
    }


def _plain(text: str) -> str:
    return sitemaps.CDATA.sub(r"\1", html.unescape(text)).strip()
