"""What is asked of Scrapy's engine beyond its public interface: all of it is in this room.

The scheduler must learn that a request has ended, whichever way it went: callback, errback,
dropped, ignored, redirected, failed. Scrapy has no signal for it. What all ways share is that
the engine takes the request out of its set of requests in progress, after its callback has
been exhausted and its items have passed the pipelines. A worker that is cut off from Redis has to
break off what is under way. One that is told to end while it is still opening has to open first,
since Scrapy would end the process without closing what is open. `tests/contract/test_engine.py`
fails when a new Scrapy changes what is used here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy import Request, signals
from scrapy.downloadermiddlewares.retry import RetryMiddleware
from scrapy.signalmanager import SignalManager
from scrapy.utils.conf import build_component_list
from scrapy.utils.defer import deferred_from_coro, ensure_awaitable
from scrapy.utils.deprecate import argument_is_required
from scrapy.utils.misc import load_object

from crawlproj.engine.versions import reason_for_plain

if TYPE_CHECKING:
    from scrapy.core.engine import ExecutionEngine
    from scrapy.crawler import Crawler
    from scrapy.http import Response


logger = logging.getLogger(__name__)

_Kind = TypeVar("_Kind")


class _Observed(set[Request]):
    """The engine's requests in progress; tells when one leaves."""

    def __init__(self, requests: set[Request], on_end: Callable[[Request], None]) -> None:
        super().__init__(requests)
        self._on_end = on_end

    def remove(self, request: Request) -> None:
        super().remove(request)
        self._on_end(request)


class EngineWatch:
    """Tells of the end of every request, of the error that ended its download, and of responses
    that reach their callback."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @property
    def _engine(self) -> ExecutionEngine:
        return self._crawler.engine

    def patch_engine(self) -> None:
        """Put our parts in place for which there is no setting. With a Scrapy that they were not
        tested with, its own stay, and the log says so."""
        if reason := reason_for_plain():
            logger.warning("Scrapy's own parts are used, which take longer: %s", reason)
            return
        # Imported here: with another Scrapy it may not even be possible.
        from crawlproj.engine import flow
        from crawlproj.engine.signals import Signals

        flow.patch_engine(self._engine)
        if type(self._crawler.signals) is SignalManager:
            self._crawler.signals.__class__ = Signals

    def close_what_opens(self) -> None:
        """Have a crawler that is stopped while its spider is being opened close it, once it is
        open: Scrapy stops only an engine that runs (scrapy/scrapy#6916), and then the process."""
        crawler, stop = self._crawler, self._crawler.stop_async
        opened = asyncio.Event()
        if self._engine.running:  # as in scrapy shell, which opens a spider late
            return

        async def stop_once_open() -> None:
            if not opened.is_set():
                logger.info("The spider is closed as soon as it is open")
            await opened.wait()
            if crawler.crawling and not self._engine.running and not self.takes_nothing:
                await self._engine.stop_async()
            await stop()

        def has_opened() -> None:
            opened.set()

        for signal in (signals.engine_started, signals.spider_closed):
            crawler.signals.connect(has_opened, signal, weak=False)
        crawler.stop_async = stop_once_open  # type: ignore[method-assign]

    def on_end(self, callback: Callable[[Request], None]) -> None:
        """Call back when a request has ended."""
        slot = self._engine._slot
        assert slot is not None
        slot.inprogress = _Observed(slot.inprogress, callback)

    def on_download_error(self, callback: Callable[[Request, Exception], None]) -> None:
        """Call back with an error that no downloader middleware has dealt with, or that one has
        raised when it saw the response."""
        manager = self._engine.downloader.middleware
        process_response = manager._process_response

        def process_exception(request: Request, exception: Exception) -> None:
            callback(request, exception)

        async def process_response_or_tell(response: Any, request: Request) -> Any:
            try:
                return await process_response(response, request)
            except Exception as error:
                callback(request, error)
                raise

        methods: Any = manager.methods
        methods["process_exception"].append(process_exception)
        manager._process_response = process_response_or_tell  # type: ignore[method-assign]

    def on_callback(self, callback: Callable[[Response], None]) -> None:
        """Call back with a response that its callback is about to get, whatever its status: no
        spider middleware has turned it away."""

        def process_spider_input(response: Response) -> None:
            callback(response)

        self._engine.scraper.spidermw.methods["process_spider_input"].append(process_spider_input)

    def before_item_pipelines(self, process_item: Callable[[Any], Any]) -> None:
        """Have every item that a spider yields pass here first."""
        methods: Any = self._engine.scraper.itemproc.methods
        methods["process_item"].appendleft(process_item)

    def limit_retries(self, most: int, *, is_given: bool) -> None:
        """Have Scrapy's middleware try again as often as the crawl allows, or less often if the
        user has said so (RETRY_TIMES): the last response is then the spider's."""
        middleware = self._crawler.get_downloader_middleware(RetryMiddleware)
        if middleware is not None:
            given = middleware.max_retry_times if is_given else most
            middleware.max_retry_times = min(given, most)

    def has_downloader_middleware(self, kind: type) -> bool:
        """Whether one of this class takes part."""
        return self._crawler.get_downloader_middleware(kind) is not None

    def extensions(self, kind: type[_Kind]) -> list[_Kind]:
        """All of a class. Scrapy's public interface tells of one."""
        manager = self._crawler.extensions
        found = manager.middlewares if manager is not None else ()
        return [extension for extension in found if isinstance(extension, kind)]

    def wake(self) -> None:
        """Make the engine ask for requests at the next turn of the loop."""
        slot = self._engine._slot
        if slot is not None and slot.closing is None:
            slot.nextcall.schedule()

    def close(self, reason: str) -> None:
        """Close the spider, gracefully, unless it is closing already."""
        slot = self._engine._slot
        if slot is not None and slot.closing is None:
            deferred_from_coro(self._engine.close_spider_async(reason=reason))

    def break_off(self) -> int:
        """Break off every download that is under way; returns how many there were."""
        handlers = self._engine.downloader.handlers._handlers.values()
        return sum(handler.break_off() for handler in handlers if hasattr(handler, "break_off"))

    @property
    def is_ending(self) -> bool:
        """True while the engine takes no more requests and waits for those that are under way."""
        slot = self._engine._slot
        return slot is not None and slot.closing is not None

    @property
    def takes_nothing(self) -> bool:
        """True once the engine takes no more requests, also when it has ended."""
        slot = self._engine._slot
        return slot is None or slot.closing is not None

    @property
    def is_starting(self) -> bool:
        """True while the spider's `start()` may still yield."""
        return self._engine._start is not None

    async def process_item(self, item: Any, only: Collection[type]) -> Any:
        """What item pipelines of these classes, in their order, make of an item that no page has
        yielded. No signal tells of it."""
        for name in build_component_list(self._crawler.settings.getwithbase("ITEM_PIPELINES")):
            kind = load_object(name)
            pipeline: Any = self._crawler.get_item_pipeline(kind) if kind in only else None
            if pipeline is not None:
                wants_spider = argument_is_required(pipeline.process_item, "spider")
                spider = (self._crawler.spider,) if wants_spider else ()
                item = await ensure_awaitable(pipeline.process_item(item, *spider))
        return item
