"""From a response to what its callback yields, one after the other.

Scrapy lets the event loop go round twice before each callback, and hands what that yields through
three async generators, a queue and two tasks. A response that has just come needs no such pause,
and a plain generator can be asked for the next item. The middlewares are the same, in the same
order, and so is what becomes of an error.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Iterable
from types import GeneratorType
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import Request
from scrapy.core.spidermw import SpiderMiddlewareManager
from scrapy.exceptions import ScrapyDeprecationWarning
from scrapy.http import Response
from scrapy.utils.asyncgen import as_async_generator
from scrapy.utils.defer import aiter_errback, ensure_awaitable, iter_errback
from scrapy.utils.misc import warn_on_generator_with_return_value
from scrapy.utils.spider import iterate_spider_output
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from scrapy.core.scraper import Scraper


class Returned(NamedTuple):
    """What a callback has returned, where it has not to be waited for."""

    outputs: Iterable[Any]


class SpiderMiddlewares(SpiderMiddlewareManager):
    """The spider middlewares; where none looks at what callbacks yield, that is not passed
    through an iterator for each of them."""

    async def scrape_response_async(
        self, scrape_func: Any, response: Response, request: Request
    ) -> Any:
        if any(self.methods["process_spider_output"]):
            return await super().scrape_response_async(scrape_func, response, request)
        try:
            result = await self._process_spider_input(scrape_func, response, request)
        except Exception as error:
            return self._process_spider_exception(response, error)
        if type(result) is not GeneratorType and isinstance(result, AsyncIterator):
            return self.guarded(response, result)
        return Returned(result)

    async def guarded(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """What a callback yields, and what middlewares make of an error in it."""
        try:
            async for output in result:
                yield output
        except Exception as error:
            async for output in self.recovered(response, error):
                yield output

    async def recovered(self, response: Response, error: Exception) -> AsyncIterator[Any]:
        """What middlewares make of an error, or the error."""
        recovered: AsyncIterator[Any] = self._process_spider_exception(response, error)
        async for output in recovered:
            yield output


class Callbacks:
    """The callbacks of one scraper, and what they yield."""

    def __init__(self, scraper: Scraper) -> None:
        self._scraper = scraper
        self._call_scrapys_way = scraper.call_spider_async
        self._handle_in_parallel = scraper.handle_spider_output_async

    async def call(self, result: Response | Failure, request: Request) -> Any:
        """Call back with a response; errors go Scrapy's way."""
        if not isinstance(result, Response):
            return await self._call_scrapys_way(result, request)
        spider = self._scraper.crawler.spider
        assert spider is not None
        if result.request is None:
            result.request = request
        callback = result.request.callback or spider._parse
        warn_on_generator_with_return_value(spider, callback)
        output: Any = callback(result, **result.request.cb_kwargs)
        if type(output) is GeneratorType:
            return output
        if isinstance(output, Deferred):
            text = f"{callback} returned a Deferred. Returning Deferreds from spider callbacks"
            warnings.warn(f"{text} is deprecated.", ScrapyDeprecationWarning, stacklevel=2)
        return await ensure_awaitable(iterate_spider_output(output))

    async def handle(self, result: Any, request: Request, response: Response | Failure) -> None:
        """Deal with what a callback yields."""
        scraper = self._scraper
        if scraper.concurrent_items != 1:
            if isinstance(result, Returned):
                result = self._middlewares.guarded(response, as_async_generator(result.outputs))
            await self._handle_in_parallel(result, request, response)
        elif isinstance(result, Returned):
            await self._handle_in_turn(result.outputs, request, response)
        elif isinstance(result, AsyncIterator):
            await self._handle_as_they_come(result, request, response)
        else:
            for output in iter_errback(result, scraper.handle_spider_error, request, response):
                await scraper._process_spidermw_output_async(output, response)

    async def _handle_in_turn(
        self, outputs: Iterable[Any], request: Request, response: Response | Failure
    ) -> None:
        process = self._scraper._process_spidermw_output_async
        remaining = iter(outputs)
        while True:
            try:
                output = next(remaining)
            except StopIteration:
                return
            except Exception as error:
                recovered = self._middlewares.recovered(response, error)
                break
            await process(output, response)
        await self._handle_as_they_come(recovered, request, response)

    async def _handle_as_they_come(
        self, result: AsyncIterator[Any], request: Request, response: Response | Failure
    ) -> None:
        scraper = self._scraper
        async for output in aiter_errback(result, scraper.handle_spider_error, request, response):
            await scraper._process_spidermw_output_async(output, response)

    @property
    def _middlewares(self) -> Any:
        """SpiderMiddlewares: what is Returned comes from there."""
        return self._scraper.spidermw


def patch_scraper(scraper: Scraper) -> None:
    """Let the responses of a scraper go this way."""
    manager = scraper.spidermw
    if type(manager) is SpiderMiddlewareManager:
        manager.__class__ = SpiderMiddlewares
    callbacks = Callbacks(scraper)
    scraper.call_spider_async = callbacks.call  # type: ignore[method-assign]
    scraper.handle_spider_output_async = callbacks.handle  # type: ignore[method-assign]
