"""Notes on what becomes of each leased request, taken while Scrapy works on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals

from crawlproj import failpoints
from crawlproj.errors import NoLongerOurs
from crawlproj.frontier.messages import LeaseName
from crawlproj.frontier.meta_keys import LEASE, REDIRECT_URLS, REQUEST
from crawlproj.frontier.outcomes import Attempt, Done, PutOff
from crawlproj.frontier.request_identity import identity_of
from crawlproj.worker.outcome import BROKEN_OFF_MS

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure

    from crawlproj.engine.watch import EngineWatch

REDIRECTED = 302
"""Noted for a redirect of which a middleware does not tell the status."""
REFRESHED = 200
"""Noted for a page that led elsewhere by itself: by a meta tag."""


class Tracking:
    """The leases that the engine works on, and what is known of each so far."""

    def __init__(self, on_end: Callable[[Attempt], None]) -> None:
        self._held: dict[LeaseName, Attempt] = {}
        self._begun: dict[Request, Attempt] = {}
        self._on_end = on_end

    def listen(self, crawler: Crawler, engine: EngineWatch) -> None:
        """Connect to everything that can happen to a request."""
        engine.on_end(self._ended)
        engine.on_download_error(self._failed)
        engine.on_callback(self._delivered)
        connect = crawler.signals.connect
        connect(self._received, signals.response_received)
        connect(self._downloaded, signals.request_left_downloader)
        connect(self._callback_failed, signals.spider_error)
        connect(self._callback_failed, signals.item_error)

    def begin(self, request: Request, attempt: Attempt) -> None:
        """The engine gets this request now."""
        name = attempt.lease.name
        request.meta[LEASE] = name
        if known_by := identity_of(attempt.lease.entry):
            request.meta[REQUEST] = known_by
        self._held[name] = self._begun[request] = attempt

    def of(self, request: Request | None) -> Attempt | None:
        """The notes on a request that is leased. A copy of it, which has its meta too, is another
        request: what a callback downloads by itself is not the page it was called for."""
        return None if request is None else self._begun.get(request)

    def sent_on(self, request: Request) -> Attempt | None:
        """The attempt that a downloader middleware goes on with by this request: a retry, or the
        target of a redirect. A request that the spider makes of a response or an error is a new
        one."""
        name = request.meta.get(LEASE)
        attempt = self._held.get(name) if name else None
        return None if attempt is None or attempt.status or attempt.error is not None else attempt

    def is_sent_back(self, request: Request, attempt: Attempt) -> bool:
        """True for a request that is to be tried again. One that goes elsewhere has been
        redirected, which is noted."""
        url = attempt.about.url
        if request.url == url and request.dont_filter:
            return True
        if (request.meta.get(REDIRECT_URLS) or [None])[-1] == url:
            attempt.status = _redirect_status(request)
            attempt.decide(Done())
        return False

    def _received(self, response: Response, request: Request) -> None:
        if attempt := self.of(request):
            failpoints.reached("fetched")
            attempt.status, attempt.size = response.status, len(response.body)

    def _downloaded(self, request: Request) -> None:
        if attempt := self.of(request):
            attempt.downloaded_at = time.monotonic()

    def _failed(self, request: Request, error: Exception) -> None:
        if attempt := self.of(request):
            attempt.error = error
            if isinstance(error, NoLongerOurs):
                attempt.decide(PutOff(BROKEN_OFF_MS))
                attempt.hold_ms = BROKEN_OFF_MS

    def _delivered(self, response: Response) -> None:
        if attempt := self.of(response.request):
            attempt.is_delivered = True

    def _callback_failed(self, failure: Failure, response: Any) -> None:
        if attempt := self.of(getattr(response, "request", None)):
            attempt.callback_error = type(failure.value).__name__

    def _ended(self, request: Request) -> None:
        if attempt := self._begun.pop(request, None):
            self._held.pop(attempt.lease.name, None)
            self._on_end(attempt)


def _redirect_status(request: Request) -> int:
    """The status by which Scrapy's middlewares came to this request."""
    reasons = request.meta.get("redirect_reasons")
    if not reasons:
        return REDIRECTED
    return reasons[-1] if isinstance(reasons[-1], int) else REFRESHED
