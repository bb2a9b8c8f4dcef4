"""Notes on what becomes of each leased request, taken while Scrapy works on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals

from crawlproj import failpoints
from crawlproj.errors import NoLongerOurs
from crawlproj.frontier.outcomes import Held, PutOff
from crawlproj.frontier.records import LEASE
from crawlproj.worker.outcome import BROKEN_OFF_MS

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure

    from crawlproj.worker.place import Engine

REDIRECTED = 302
"""Noted for a redirect of which a middleware does not tell the status."""
REFRESHED = 200
"""Noted for a page that led elsewhere by itself: by a meta tag."""


class Tracking:
    """The leases that the engine works on, and what is known of each so far."""

    def __init__(self, on_end: Callable[[Held], None]) -> None:
        self._held: dict[tuple[int, int], tuple[Request, Held]] = {}
        self._on_end = on_end

    def listen(self, crawler: Crawler, engine: Engine) -> None:
        """Hear of everything that can happen to a request."""
        engine.on_end(self._ended)
        engine.on_download_error(self._failed)
        engine.on_callback(self._delivered)
        connect = crawler.signals.connect
        connect(self._received, signals.response_received)
        connect(self._downloaded, signals.request_left_downloader)
        connect(self._callback_failed, signals.spider_error)
        connect(self._callback_failed, signals.item_error)

    def begin(self, request: Request, held: Held) -> None:
        """The engine gets this request now."""
        name = (held.lease.shard, held.lease.token)
        request.meta[LEASE] = name
        self._held[name] = request, held

    def of(self, request: Request | None) -> Held | None:
        """The notes on a request that is leased. A copy of it, which has its meta too, is another
        request: what a callback downloads by itself is not the page it was called for."""
        begun, held = self._named(request)
        return held if begun is request else None

    def _named(self, request: Request | None) -> tuple[Request, Held] | tuple[None, None]:
        """The leased request that this one is, or was made from, and the notes on it."""
        name = request.meta.get(LEASE) if request is not None else None
        return self._held.get(name, (None, None)) if name else (None, None)

    def sent_on(self, request: Request) -> Held | None:
        """The lease of which a downloader middleware has made this request: to try it again, or to
        follow a redirect. What the spider makes of a request, once it has the response or the
        error, is a request of its own."""
        _, held = self._named(request)
        return None if held is None or held.status or held.error is not None else held

    def is_sent_back(self, request: Request, held: Held) -> bool:
        """True for a request that is to be tried again. One that goes elsewhere has been
        redirected, which is noted."""
        url = held.about.url
        if request.url == url and request.dont_filter:
            return True
        if (request.meta.get("redirect_urls") or [None])[-1] == url:
            held.status = _redirect_status(request)
        return False

    def _received(self, response: Response, request: Request) -> None:
        if held := self.of(request):
            failpoints.reached("fetched")
            held.status, held.size = response.status, len(response.body)

    def _downloaded(self, request: Request) -> None:
        if held := self.of(request):
            held.downloaded_at = time.monotonic()

    def _failed(self, request: Request, error: Exception) -> None:
        if held := self.of(request):
            held.error = error
            if isinstance(error, NoLongerOurs):
                held.decide(PutOff(BROKEN_OFF_MS))
                held.hold_ms = BROKEN_OFF_MS

    def _delivered(self, response: Response) -> None:
        if held := self.of(response.request):
            held.is_delivered = True

    def _callback_failed(self, failure: Failure, response: Any) -> None:
        if held := self.of(getattr(response, "request", None)):
            held.callback_error = type(failure.value).__name__

    def _ended(self, request: Request) -> None:
        if held := self.of(request):
            del self._held[request.meta[LEASE]]
            self._on_end(held)


def _redirect_status(request: Request) -> int:
    """The status by which Scrapy's middlewares came to this request."""
    reasons = request.meta.get("redirect_reasons")
    if not reasons:
        return REDIRECTED
    return reasons[-1] if isinstance(reasons[-1], int) else REFRESHED
