"""What callbacks return, dealt with as crawlproj/engine/callbacks.py does and as Scrapy does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from scrapy import Request, Spider, signals
from scrapy.core.scraper import Scraper
from scrapy.http import TextResponse
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.test import get_crawler
from twisted.internet.defer import succeed

from crawlproj.engine.callbacks import patch_scraper


class Nothing(Spider):
    name = "nothing"


class Recovering:
    """A spider middleware that knows an answer to one kind of error."""

    def process_spider_exception(self, response: Any, exception: Exception) -> list[Any] | None:
        return [{"recovered": str(exception)}, {"and": "more"}] if _is_known(exception) else None


class Numbering(Recovering):
    """One that looks at what callbacks yield, so that everything goes Scrapy's way."""

    def process_spider_output(self, response: Any, result: Any) -> Iterator[Any]:
        for number, item in enumerate(result):
            yield {**(item or {}), "number": number}

    async def process_spider_output_async(self, response: Any, result: Any) -> AsyncIterator[Any]:
        number = 0
        async for item in result:
            yield {**(item or {}), "number": number}
            number += 1


class Kept:
    """The end of the pipelines."""

    items: list[Any]

    def process_item(self, item: Any) -> Any:
        self.items.append(item)
        return item


def _is_known(error: Exception) -> bool:
    return isinstance(error, ValueError)


def generator(response: Any) -> Iterator[Any]:
    yield {"url": response.url}
    yield None
    yield {"name": response.cb_kwargs.get("name", "")}


def failing_later(response: Any) -> Iterator[Any]:
    yield {"first": 1}
    raise KeyError("no such thing")


def failing_as_known(response: Any) -> Iterator[Any]:
    yield {"first": 1}
    raise ValueError("known")


def failing_at_once(response: Any) -> list[Any]:
    raise KeyError("no such thing")


def failing_at_once_as_known(response: Any) -> list[Any]:
    raise ValueError("known")


def a_list(response: Any) -> list[Any]:
    return [{"a": 1}, {"b": 2}]


def one_item(response: Any) -> dict[str, Any]:
    return {"a": 1}


def nothing(response: Any) -> None:
    return None


def a_deferred(response: Any) -> Any:
    return succeed([{"a": 1}])


async def async_generator(response: Any) -> AsyncIterator[Any]:
    yield {"a": 1}
    raise ValueError("known")


async def coroutine(response: Any) -> list[Any]:
    return [{"a": 1}]


CALLBACKS = [
    generator,
    failing_later,
    failing_as_known,
    failing_at_once,
    failing_at_once_as_known,
    a_list,
    one_item,
    nothing,
    async_generator,
    coroutine,
]


async def scraped(
    callback: Any, middleware: type, items_at_a_time: int, *, is_ours: bool
) -> tuple[list[Any], list[str], dict[str, Any]]:
    """Items, errors that were told of, and counts, after one response."""
    items: list[Any] = []
    settings = {
        "TELNETCONSOLE_ENABLED": False,
        "SPIDER_MIDDLEWARES_BASE": {},
        "SPIDER_MIDDLEWARES": {middleware: 10},
        "ITEM_PIPELINES": {type("KeptHere", (Kept,), {"items": items}): 10},
        "CONCURRENT_ITEMS": items_at_a_time,
        "LOG_LEVEL": "CRITICAL",
    }
    crawler: Any = get_crawler(Nothing, settings)
    crawler.spider = Nothing.from_crawler(crawler)
    errors: list[str] = []

    def told(failure: Any) -> None:
        errors.append(repr(failure.value))

    crawler.signals.connect(told, signals.spider_error)
    scraper = Scraper(crawler)
    await scraper.open_spider_async()
    if is_ours:
        patch_scraper(scraper)
    request = Request("http://a.test/x", callback=callback)
    response = TextResponse("http://a.test/x", request=request)
    await maybe_deferred_to_future(scraper.enqueue_scrape(response, request))
    counts = crawler.stats.get_stats()
    return items, errors, {name: counts[name] for name in counts if "exceptions" in name}


@pytest.mark.parametrize("items_at_a_time", [1, 4])
@pytest.mark.parametrize("middleware", [Recovering, Numbering])
@pytest.mark.parametrize("callback", CALLBACKS)
async def test_what_a_callback_returns_becomes_what_scrapy_makes_of_it(
    callback: Any, middleware: type, items_at_a_time: int
) -> None:
    ours = await scraped(callback, middleware, items_at_a_time, is_ours=True)
    assert ours == await scraped(callback, middleware, items_at_a_time, is_ours=False)
    items, errors, _ = ours
    assert bool(items) == (callback not in (nothing, failing_at_once))
    assert bool(errors) == (callback in (failing_later, failing_at_once))


async def test_a_callback_is_called_before_the_event_loop_goes_on() -> None:
    crawler: Any = get_crawler(Nothing, {"TELNETCONSOLE_ENABLED": False})
    crawler.spider = Nothing.from_crawler(crawler)
    scraper = Scraper(crawler)
    patch_scraper(scraper)
    response = TextResponse("http://a.test/x")
    called = scraper.call_spider_async(response, Request("http://a.test/x", callback=generator))
    with pytest.raises(StopIteration) as ended:
        called.send(None)
    assert [*ended.value.value] == [*generator(response)]


async def test_a_deferred_is_warned_of_as_by_scrapy() -> None:
    for is_ours in (True, False):
        with pytest.warns(match="returned a Deferred"):
            items, _, _ = await scraped(a_deferred, Recovering, 1, is_ours=is_ours)
        assert items == [{"a": 1}]
