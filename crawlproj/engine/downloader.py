"""From the engine to the download handler, in one task.

Scrapy's downloader keeps a pace for each of its slots, with two tasks and three Deferreds a
request. Where a slot has neither a delay nor a queue, as everywhere in a crawl whose pace the
frontier keeps, the request goes straight to its handler; else it goes Scrapy's way.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import lru_cache
from time import monotonic
from types import MethodType
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request, signals
from scrapy.core.downloader import Downloader as ScrapyDownloader
from scrapy.core.downloader.handlers import DownloadHandlers
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.downloadermiddlewares.useragent import UserAgentMiddleware
from scrapy.exceptions import _InvalidOutput
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro, ensure_awaitable
from scrapy.utils.python import global_object_name
from twisted.internet.defer import Deferred

from crawlproj.engine.waiting import is_ready

Fetch = Callable[[Request], Coroutine[Any, Any, Response]]


class Middlewares(DownloaderMiddlewareManager):
    """The downloader middlewares; only those that have to are waited for."""

    async def _process_request(self, request: Request, download_func: Fetch) -> Response | Request:
        for method in self.methods["process_request"]:
            result = self._called(method, request=request)
            if result is None:  # as nearly always
                continue
            if not is_ready(result):
                result = await _promised(method, result)
            if result is not None and not isinstance(result, (Response, Request)):
                raise _wrong(method, "None, Response or Request", result)
            if result:
                return result
        return await download_func(request)

    async def _process_response(
        self, response: Response | Request, request: Request
    ) -> Response | Request:
        if response is None:
            raise TypeError("Received None in process_response")
        if isinstance(response, Request):
            return response
        for method in self.methods["process_response"]:
            result = self._called(method, request=request, response=response)
            if isinstance(result, Response):  # as nearly always
                response = result
                continue
            response = result if is_ready(result) else await _promised(method, result)
            if isinstance(response, Request):
                return response
            if not isinstance(response, Response):
                raise _wrong(method, "Response or Request", response)
        return response

    def _called(self, method: Any, **named: Any) -> Any:
        if self._mw_methods_requiring_spider:
            return self._handle_mw_method(method, **named)
        return method(**named)


_CHECKED = UserAgentMiddleware.process_request.__code__


def _unchecked(method: Any) -> Any:
    """Without the look, at every call, for an argument that Scrapy no longer wants: it is not given
    here. Scrapy's own middlewares have that."""
    is_checked = getattr(method, "__code__", None) is _CHECKED and hasattr(method, "__wrapped__")
    return MethodType(method.__wrapped__, method.__self__) if is_checked else method


async def _promised(method: Any, result: Any) -> Any:
    return await ensure_awaitable(result, _warn=global_object_name(method))


def _wrong(method: Any, wanted: str, got: Any) -> Exception:
    return _InvalidOutput(
        f"Middleware {method.__qualname__} must return {wanted}, got {type(got).__name__}"
    )


@lru_cache(10_000)
def _hostname(netloc: str) -> str:
    """Without user, password and port; found once, not with every page of a host."""
    return urlsplit(f"//{netloc}").hostname or ""


class Handlers(DownloadHandlers):
    """The download handlers, found without taking each URL apart."""

    async def download_request_async(self, request: Request) -> Response:
        scheme = request.url.partition(":")[0]
        handler = self._handlers.get(scheme)
        if handler is None or scheme in self._old_style_handlers:
            return await super().download_request_async(request)
        return await handler.download_request(request)


class Downloader(ScrapyDownloader):
    """`DOWNLOADER`."""

    def __init__(self, crawler: Any) -> None:
        super().__init__(crawler)
        # Not built anew: they would begin twice.
        self.middleware.__class__ = Middlewares
        for methods in self.middleware.methods.values():
            for number, method in enumerate(methods):
                methods[number] = _unchecked(method)
        self.handlers.__class__ = Handlers

    def get_slot_key(self, request: Request) -> str:
        parts = request.url.split("/", 3)
        if len(parts) < 4 or self.ip_concurrency or self.DOWNLOAD_SLOT in request.meta:
            return super().get_slot_key(request)
        return _hostname(parts[2])

    def fetch(  # type: ignore[override]  # without the argument that Scrapy has given up
        self, request: Request
    ) -> Deferred[Response | Request]:
        return deferred_from_coro(self.fetch_async(request))

    async def fetch_async(self, request: Request) -> Response | Request:
        """Download a request, through the middlewares."""
        self.active.add(request)
        try:
            return await self.middleware.download_async(self._enqueue_request, request)
        finally:
            self.active.remove(request)

    async def _enqueue_request(self, request: Request) -> Response:
        key = self.get_slot_key(request)
        slot = self.slots.get(key) or self._get_slot(request)[1]
        if slot.delay or slot.queue or slot.latercall or slot.free_transfer_slots() < 1:
            return await super()._enqueue_request(request)
        request.meta[self.DOWNLOAD_SLOT] = key
        slot.active.add(request)
        slot.lastseen = monotonic()
        self.signals.send_catch_log(
            signal=signals.request_reached_downloader,
            request=request,
            spider=self.crawler.spider,
        )
        try:
            return await self._download(slot, request)
        finally:
            slot.active.remove(request)
