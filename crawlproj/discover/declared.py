"""What a page and its headers declare of it: canonical URL, language, version, last change.

A page is searched for its declarations where they can be, at the head; nothing is parsed that is
not found. That is microseconds a page. Pure, but for the response's headers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import NamedTuple, Protocol

from crawlproj.discover.markup import attributes_of
from crawlproj.items import utc_timestamp
from crawlproj.urls import MAX_LENGTH

HEAD_BYTES = 16_384
"""Of a page: what comes later is not looked at, for every KB takes half a microsecond."""
MOST_MENTIONS = 8
"""Places with the word `canonical` that are looked at."""
MAX_ETAG = 256
"""Characters; a longer one is not kept at all, for a part of it is none."""

_END_OF_HEAD = (b"</head>", b"<body", b"</HEAD>", b"<BODY")
_CANONICAL = (b"canonical", b"CANONICAL")
_HTML = re.compile(rb"<html\b([^>]{0,4000})>", re.IGNORECASE)
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8}){0,3}")
_HTTP_DATE = re.compile(r"[A-Z][a-z]{2}, (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d:\d\d:\d\d) GMT")
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_MONTH = {name: f"{number:02}" for number, name in enumerate(_MONTHS, 1)}


class Headers(Protocol):
    """Of a response, as Scrapy has them."""

    def get(self, name: str) -> bytes | None: ...


class Versions(NamedTuple):
    """What a server says of how new a page is."""

    etag: str
    last_modified: str
    """As our other times, in UTC."""


def versions(headers: Headers) -> Versions:
    """Of any response."""
    etag, modified = headers.get("ETag"), headers.get("Last-Modified")
    return Versions(
        _etag(etag) if etag else "",
        http_time(modified.decode("latin-1")) if modified else "",
    )


def _etag(value: bytes) -> str:
    text = value.decode("latin-1").strip()
    return text if len(text) <= MAX_ETAG and text.isprintable() else ""


def http_time(text: str) -> str:
    """A date of HTTP as a time of ours; "" for what is none."""
    found = _HTTP_DATE.fullmatch(text)
    try:
        if found and found[2] in _MONTH:
            time = f"{found[3]}-{_MONTH[found[2]]}-{found[1]}T{found[4]}.000Z"
            datetime.fromisoformat(time)  # raises for 31 February
            return time
        return utc_timestamp(parsedate_to_datetime(text).timestamp())
    except (ValueError, TypeError, OverflowError, OSError):
        return ""


def canonical(body: bytes) -> str:
    """The href of `<link rel=canonical>` as it is written; "" if there is none."""
    for tag in _links(body):
        attributes = attributes_of(tag.decode("utf-8", "replace"))
        if "canonical" in attributes.get("rel", "").lower().split():
            return attributes.get("href", "").strip()[:MAX_LENGTH]
    return ""


def _links(body: bytes) -> Iterator[bytes]:
    """The `<link>` elements of the head that mention the word, without their name."""
    # Words in the cases that people write: a search that ignores case takes ten times as long.
    end = HEAD_BYTES
    for word in _END_OF_HEAD:
        found = body.find(word, 0, end)
        end = found if found >= 0 else end
    for word in _CANONICAL:
        at = body.find(word, 0, end)
        for _ in range(MOST_MENTIONS):
            if at < 0:
                break
            start, stop = body.rfind(b"<", 0, at), body.find(b">", at, end)
            is_link = stop > 0 and body[start : start + 5].lower() == b"<link"
            if is_link and not _is_commented(body, start):
                yield body[start + 5 : stop]
            at = body.find(word, at + 1, end)


def _is_commented(body: bytes, at: int) -> bool:
    opened = body.rfind(b"<!--", 0, at)
    return opened >= 0 and body.find(b"-->", opened, at) < 0


@lru_cache(256)
def _language_of(attributes: bytes) -> str:
    """Of `<html …>`, which is the same on all pages of most sites."""
    said = attributes_of(attributes.decode("latin-1"))
    return said.get("lang") or said.get("xml:lang") or ""


def language(body: bytes, headers: Headers) -> str:
    """What `<html lang>` says, else `Content-Language`; "" if neither names one language."""
    found = _HTML.search(body, 0, 4096)
    text = _language_of(found[1]) if found else ""
    if not text and (header := headers.get("Content-Language")):
        text = header.decode("latin-1")
    text = text.strip()
    return text if _LANGUAGE.fullmatch(text) else ""
