"""From the scheduler to the end of a request, in one task.

Scrapy's engine hands a request from layer to layer through a dozen Deferreds and five tasks. The
steps below are the same, in the same order, with the same signals, log lines and counts; they are
awaited one after the other. It is the engine's own methods that are called, and its own sets in
which a request stands while it is in progress.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.log import logformatter_adapter
from twisted.python.failure import Failure

from crawlproj.engine.callbacks import patch_scraper
from crawlproj.engine.downloader import Downloader

if TYPE_CHECKING:
    from scrapy.core.engine import ExecutionEngine

logger = logging.getLogger("scrapy.core.engine")


class Flow:
    """The way of each request through one engine."""

    def __init__(self, engine: ExecutionEngine) -> None:
        self._engine = engine
        # The loop itself keeps only weak references to its tasks.
        self._tasks: dict[Request, asyncio.Task[None]] = {}

    def start(self) -> bool:
        """Begin with the scheduler's next request, if it has one."""
        engine = self._engine
        slot = engine._slot
        assert slot is not None
        request = slot.scheduler.next_request()
        if request is None:
            engine.signals.send_catch_log(signals.scheduler_empty)
            return False
        slot.add_request(request)
        # Now, not when the task begins: the engine asks for more until this shows.
        engine.downloader.active.add(request)
        task = asyncio.get_running_loop().create_task(self._process(request))
        self._tasks[request] = task
        return True

    async def _process(self, request: Request) -> None:
        slot = self._engine._slot
        assert slot is not None
        try:
            await self._hand_on(await self._downloaded(request), request)
        except Exception:
            self._log_error("Error while handling downloader output")
        finally:
            del self._tasks[request]
            self._engine.downloader.active.discard(request)
            slot.remove_request(request)
            slot.nextcall.schedule()

    async def _downloaded(self, request: Request) -> Response | Request | Failure:
        engine = self._engine
        try:
            result: Response | Request = await self._fetch(request)
            if isinstance(result, Response):
                self._announce(result, request)
            elif not isinstance(result, Request):
                raise TypeError(
                    f"Incorrect type: expected Response or Request, got {type(result)}: {result!r}"
                )
            return result
        except Exception:
            return Failure()  # type: ignore[no-untyped-call]
        finally:
            if engine._slot is not None:
                engine._slot.nextcall.schedule()

    async def _fetch(self, request: Request) -> Any:
        downloader = self._engine.downloader
        if isinstance(downloader, Downloader):
            return await downloader.fetch_async(request)
        return await maybe_deferred_to_future(downloader.fetch(request))

    def _announce(self, response: Response, request: Request) -> None:
        engine = self._engine
        if response.request is None:
            response.request = request
        assert engine.spider is not None
        told: Any = engine.logformatter.crawled(response.request, response, engine.spider)
        if told is not None:
            logger.log(*logformatter_adapter(told), extra={"spider": engine.spider})
        engine.signals.send_catch_log(
            signal=signals.response_received,
            response=response,
            request=response.request,
            spider=engine.spider,
        )

    async def _hand_on(self, result: Response | Request | Failure, request: Request) -> None:
        if isinstance(result, Request):
            self._engine.crawl(result)
            return
        scraper = self._engine.scraper
        slot = scraper.slot
        assert slot is not None
        slot.add_response_request(result, request)
        slot.next_response_request_deferred()
        try:
            await scraper._scrape(result, request)
        except Exception:
            self._log_error(f"Scraper bug processing {request}")
        finally:
            slot.finish_response(result, request)
            scraper._check_if_closing()

    def _log_error(self, text: str) -> None:
        logger.error(text, exc_info=True, extra={"spider": self._engine.spider})


def patch_engine(engine: ExecutionEngine) -> None:
    """Let an engine that has been opened go this way."""
    engine._start_scheduled_request = Flow(engine).start  # type: ignore[method-assign]
    patch_scraper(engine.scraper)
