"""Requests that ask for a page only if it has changed (RFC 9110, section 13), and what answers to
them say: the one place for both."""

from __future__ import annotations

from datetime import UTC
from email.utils import formatdate, parsedate_to_datetime
from typing import TYPE_CHECKING

from crawlproj.frontier.meta_keys import STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request

NOT_MODIFIED = 304
GONE = (404, 410)
"""What a server says of a page that it no longer has."""

NEW, CHANGED, UNCHANGED, IS_GONE = "new", "changed", "unchanged", "gone"
"""What has become of a page since it was last fetched, as rows say it."""

_LATEST_S = 2**32 - 1


def ask_if_changed(
    request: Request, etag: bytes, last_modified: bytes, statuses: Iterable[int] = ()
) -> None:
    """Let a request be answered by 304 if the page is as these validators say. Its callback is
    called for that, and for these statuses."""
    if etag:
        request.headers["If-None-Match"] = etag
    if last_modified:
        request.headers["If-Modified-Since"] = last_modified
    request.meta[STATUSES] = [*statuses, NOT_MODIFIED]


def seconds_of(last_modified: str) -> int:
    """A date of HTTP in seconds since 1970; 0 if it is none."""
    try:
        found = parsedate_to_datetime(last_modified)
        seconds = int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError, TypeError):
        return 0
    return seconds if 0 < seconds <= _LATEST_S else 0


def date_of(seconds: int) -> bytes:
    """The same as a header has it; nothing for 0."""
    return formatdate(seconds, usegmt=True).encode() if seconds else b""
