"""What an RSS or Atom feed says: the pages that its entries lead to, and their dates. Pure.

A feed is hostile input. Like a sitemap (sitemaps.py) it is read by regular expressions and no XML
parser: there are no entities to expand and nothing outside to load, time is linear in its size, and
a file that is cut off or badly escaped yields what it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from crawlproj.discover import sitemaps
from crawlproj.discover.conditional import seconds_of
from crawlproj.discover.sitemaps import Entry, Sitemap
from crawlproj.errors import CrawlError
from crawlproj.possessive import compiled
from crawlproj.urls import absolute

_HEAD = 4096
_ROOT = re.compile(r"<(?:([A-Za-z_][\w.\-]{0,40}):)?(rss|feed|RDF)(?=[\s>/])")


class NoFeed(CrawlError):
    """Something else than a feed."""


class _Entry(NamedTuple):
    link: str = ""
    guid: str = ""
    modified_s: int = 0


def read(
    body: bytes,
    base: str,
    most_bytes: int = sitemaps.MOST_BYTES,
    most_urls: int = sitemaps.MOST_URLS,
) -> Sitemap:
    """Read whatever is there, as a sitemap whose pages are the entries in their order; NoFeed if it
    is none, TooLarge if it unpacks to more than it may."""
    text = sitemaps.text_of(sitemaps.unpacked(body, most_bytes))
    root = _ROOT.search(text, 0, _HEAD)
    if root is None:
        raise NoFeed("neither RSS nor Atom")
    found: dict[str, Entry] = {}
    for entry in _entries(text, (root[1] or "") if root[2] == "feed" else ""):
        if len(found) >= most_urls:
            return Sitemap(False, list(found.values()), overflow=True)
        if url := entry.link or entry.guid:
            page = absolute(url, base)
            found.setdefault(page, Entry(page, entry.modified_s))
    return Sitemap(False, list(found.values()))


def read_any(body: bytes, base: str) -> Sitemap:
    """Read a feed or a sitemap: robots.txt may name either."""
    found = sitemaps.read(body)
    if not found.entries and not found.is_index:
        with suppress(NoFeed):
            return read(body, base)
    return found


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
        attributes = sitemaps.attributes(found["link"])
        is_page = attributes.get("rel", "alternate") == "alternate"
        url = attributes.get("href") or sitemaps.plain(found["link_text"])
        return entry._replace(link=url if is_page else "")
    if found["guid"] is not None and not entry.guid:
        is_url = sitemaps.attributes(found["guid"]).get("isPermaLink", "true") != "false"
        url = sitemaps.plain(found["guid_text"])
        is_url = is_url and url.startswith(("http://", "https://"))
        return entry._replace(guid=url if is_url else "")
    if found["date"] is not None:
        return entry._replace(modified_s=max(entry.modified_s, _seconds(found["date_text"])))
    return entry


def _seconds(text: str) -> int:
    """A date as RSS or Atom has it; 0 if it is none."""
    date = sitemaps.plain(text)[:100]
    return sitemaps.w3c_seconds(date) or seconds_of(date)


def _tokens(prefix: str) -> re.Pattern[str]:
    """Elements of the root's namespace, or of none: `atom:link` in RSS is the feed's own. Comments
    and quoted HTML are taken along, so that nothing inside is found."""
    name = f"{re.escape(prefix)}:" if prefix else ""
    inside = r"(?:[\s/][^<>]{0,8192}+)?+>"
    return compiled(
        rf"{sitemaps.COMMENT}"
        rf"|<!\[CDATA\[[^\]]*+(?:\](?!\]>)[^\]]*+)*+(?:\]\]>|\Z)"
        rf"|(?P<begin><{name}(?:item|entry){inside})"
        rf"|(?P<end></{name}(?:item|entry)\s*+>)"
        rf"|<{name}link(?P<link>{inside})(?P<link_text>{sitemaps.TEXT})"
        rf"|<{name}guid(?P<guid>{inside})(?P<guid_text>{sitemaps.TEXT})"
        rf"|<(?P<date>{name}(?:pubDate|updated|published)|dc:date){inside}"
        rf"(?P<date_text>{sitemaps.TEXT})"
    )
