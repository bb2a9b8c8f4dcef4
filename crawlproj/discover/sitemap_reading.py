"""Reads sitemaps, which go through the frontier like any URL, and queues their pages.

A sitemap stands in its host's queue, keeps the host's pace, needs leave by robots.txt and has its
address judged; it counts as filtered (`sitemap`) once it has been dealt with. Its pages come in as
links of depth 1, judged like links; further sitemaps need only be in scope. Each is read once a
crawl, so an index that leads back to itself ends.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import DownloadCancelledError

from crawlproj.discover import sitemaps, web_feeds
from crawlproj.discover.conditional import UNCHANGED
from crawlproj.frontier.failures import meaning_of
from crawlproj.frontier.meta_keys import SITEMAP
from crawlproj.frontier.outcomes import TRANSIENT_STATUSES, Attempt, Failed, Filtered, Retry
from crawlproj.urls import UrlError, location, normalise

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response
    from twisted.python.failure import Failure

    from crawlproj.discover.discovery import Discovery
    from crawlproj.discover.sitemaps import Entry
    from crawlproj.running import Refresh

logger = logging.getLogger(__name__)

SITEMAP_READ = "sitemap"
"""How the ledger counts a sitemap that was fetched, whatever it said."""

MOST_STEPS = 5
AT_ONCE = 1000
"""Links taken in before the event loop has a turn."""


class SitemapReader:
    """Offers, fetches and reads sitemaps, for one worker."""

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery
        self.refresh: Refresh | None = None
        """Where pages are revisited: sitemaps are, too, and tell what has been modified."""

    def offer(self, host: str, locations: Iterable[str]) -> None:
        """The sitemaps that a host's robots.txt names."""
        base = normalise(f"{host}/robots.txt")
        for one in locations:
            self._discovery.sitemap(one, base, 0)

    def prepare(self, request: Request, attempt: Attempt) -> None:
        """Let a request for a sitemap come back here, however it ends."""
        request.meta.update(
            handle_httpstatus_all=True,
            dont_redirect=True,
            dont_retry=True,
            download_maxsize=sitemaps.MOST_BYTES,
        )

        async def received(response: Response) -> None:
            await self._received(response, attempt)

        def failed(failure: Failure) -> None:
            if isinstance(failure.value, Exception) and meaning_of(failure.value).may_pass:
                attempt.decide(Retry(attempt.lease.entry))

        request.callback = received
        request.errback = failed

    async def _received(self, response: Response, attempt: Attempt) -> None:
        if response.status in TRANSIENT_STATUSES:
            attempt.decide(Retry(attempt.lease.entry))
        elif self._is_known(response, attempt):
            attempt.decide(Filtered(SITEMAP_READ))
        elif 300 <= response.status < 400:
            self._lead(response, [location(response.headers.get("Location"))])
            attempt.decide(Filtered(SITEMAP_READ))
        elif response.status < 300:
            await self._read(response, attempt)
        else:
            attempt.decide(Failed(f"http_{response.status}"))

    def _is_known(self, response: Response, attempt: Attempt) -> bool:
        """Whether it is as it was when it was last read; noted for the next time."""
        if self.refresh is None or response.status >= 400:
            return False
        said = response.body or response.headers.get("Location") or b""
        digest = hashlib.sha256(said).digest()
        return self.refresh.note(attempt, response, digest) == UNCHANGED

    async def _read(self, response: Response, attempt: Attempt) -> None:
        try:
            found = await asyncio.to_thread(web_feeds.read_any, response.body, response.url)
        except sitemaps.TooLarge as error:
            attempt.error = DownloadCancelledError(str(error))
            return
        if found.overflow:
            logger.warning("%s: more than %d URLs", response.url, sitemaps.MOST_URLS)
        if found.is_index:
            self._lead(response, found.urls)
        else:
            await self._follow(response, found.entries)
        await self._tell_modified(response, found.entries)
        attempt.decide(Filtered(SITEMAP_READ))

    def _lead(self, response: Response, locations: Iterable[str]) -> None:
        steps = _steps(response.meta[SITEMAP]) + 1
        for one in locations:
            self._discovery.sitemap(one, normalise(response.url), steps)

    async def _follow(self, response: Response, entries: list[Entry]) -> None:
        base, depth = normalise(response.url), response.meta["depth"] + 1
        urls = in_order(entries, with_media=self._discovery.wants_media)
        while some := list(islice(urls, AT_ONCE)):
            self._discovery.follow_listed(some, base, depth)
            await asyncio.sleep(0)

    async def _tell_modified(self, response: Response, entries: list[Entry]) -> None:
        """Tell which pages, or sitemaps, have been modified, and when."""
        if self.refresh is None:
            return
        base, modified_s = normalise(response.url), {}
        for number, entry in enumerate(entries):
            with suppress(UrlError):
                if entry.modified_s:
                    modified_s[self._discovery.normal(entry.url, base)] = entry.modified_s
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        await self.refresh.hint(modified_s)


def in_order(entries: list[Entry], *, with_media: bool = False) -> Iterator[str]:
    """The URLs of a sitemap's pages, those of higher priority first, with their alternates and, if
    wanted, what they show."""
    for entry in sorted(entries, key=lambda entry: -entry.priority):
        yield entry.url
        yield from entry.alternates
        if with_media:
            yield from entry.media


def _steps(value: Any) -> int:
    """Of a seed, the mark may be anything."""
    return value if type(value) is int else 0
