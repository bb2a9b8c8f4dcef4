"""Redirects as `site` follows them: which responses are one, by which URLs the way has led so far,
and where it goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from crawlproj.errors import RedirectLoop, RedirectNowhere
from crawlproj.frontier.meta_keys import PASSED
from crawlproj.urls import Url, UrlError, location

if TYPE_CHECKING:
    from scrapy.http import Response

CHOICES = 300
"""Followed where the server says which choice it prefers; else a page that links to them."""
STATUSES = (CHOICES, 301, 302, 303, 307, 308)
MOST = 20
"""Redirects, one after the other, that are followed."""

BAD = (RedirectLoop, RedirectNowhere)
"""What `target` raises."""


def is_one(response: Response) -> bool:
    """Whether a response leads elsewhere."""
    if response.status == CHOICES:
        return "Location" in response.headers
    return response.status in STATUSES


def passed_by(response: Response) -> list[str]:
    """The URLs by which redirects have led to a response, its own at the end."""
    return [*response.meta.get(PASSED, ()), response.url]


def target(header: bytes | None, passed: Sequence[str], normal: Callable[..., Url]) -> Url:
    """Where the last of these URLs leads by its header `Location`; `normal` makes one form of a
    URL, from another that it may be relative to. Raises one of BAD."""
    to = location(header)
    if not to:
        raise RedirectNowhere("without saying where to")
    try:
        found = normal(to, normal(passed[-1]))
    except UrlError as error:
        raise RedirectNowhere(f"to {to[:200]!r}: {error}") from None
    if str(found) in passed or len(passed) > MOST:
        raise RedirectLoop(f"in a circle or too far: {' → '.join(passed[-3:])} → {found}")
    return found
