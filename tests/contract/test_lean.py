"""Every part of crawlproj/engine held against the one of Scrapy that it stands for."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.core.downloader import Downloader as ScrapyDownloader
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.downloadermiddlewares.stats import DownloaderStats as ScrapysDownloaderStats
from scrapy.exceptions import StopDownload, _InvalidOutput
from scrapy.http import Response, TextResponse
from scrapy.pipelines import ItemPipelineManager
from scrapy.signalmanager import SignalManager
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.test import get_crawler
from twisted.internet.defer import Deferred, succeed

from crawlproj.engine.counts import DownloaderStats
from crawlproj.engine.downloader import Downloader, Middlewares
from crawlproj.engine.item_pipelines import ItemPipelines
from crawlproj.engine.signals import Signals
from crawlproj.engine.stats import Stats

SETTINGS = {"TELNETCONSOLE_ENABLED": False}


class Nothing(Spider):
    name = "nothing"


def crawler_of(**settings: Any) -> Any:
    crawler = get_crawler(Nothing, {**SETTINGS, **settings})
    crawler.spider = Nothing.from_crawler(crawler)
    return crawler


# Stats


def test_stats_hold_what_scrapys_hold() -> None:
    crawler = crawler_of()
    both = [Stats(crawler), MemoryStatsCollector(crawler)]
    for stats in both:
        stats.inc_value("pages")
        stats.inc_value("pages", 2)
        stats.inc_value("from", start=5)
        stats.max_value("most", 3)
        stats.max_value("most", 2)
        stats.min_value("least", 3)
        stats.set_value("name", "x")
    assert both[0].get_stats() == both[1].get_stats()
    assert both[0].get_value("pages") == 3
    assert both[0].get_value("unknown", 7) == 7


# Counts of requests and responses

REQUESTS = [
    Request("http://a.test/"),
    Request("http://a.test/some/page.html?q=1&r=%20", headers={"User-Agent": "x", "A": ["1", "2"]}),
    Request("https://a.test/form", method="POST", body=b"a=b", headers={"Content-Length": "3"}),
]
RESPONSES = [
    Response("http://a.test/", status=200, body=b"x" * 1000),
    Response("http://a.test/", status=404, headers={"Set-Cookie": ["a=1", "b=2"], "Server": "s"}),
    Response("http://a.test/", status=599, headers={"Content-Type": "text/html"}),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_requests_are_measured_as_scrapy_measures_them(request_: Request) -> None:
    assert counted(DownloaderStats, lambda one: one.process_request(request_)) == counted(
        ScrapysDownloaderStats, lambda one: one.process_request(request_)
    )


@pytest.mark.parametrize("response", RESPONSES, ids=str)
def test_responses_are_counted_as_scrapy_counts_them(response: Response) -> None:
    ours = counted(DownloaderStats, lambda one: one.process_response(REQUESTS[0], response))
    theirs = counted(
        ScrapysDownloaderStats, lambda one: one.process_response(REQUESTS[0], response)
    )
    # Scrapy counts a header with two values as one line end.
    assert abs(ours.pop("downloader/response_bytes") - theirs.pop("downloader/response_bytes")) <= 4
    assert ours == theirs


def counted(kind: Any, use: Callable[[Any], Any]) -> dict[str, Any]:
    crawler = crawler_of()
    middleware = kind(Stats(crawler))
    use(middleware)
    counts: dict[str, Any] = middleware.stats.get_stats()
    return counts


# Item pipelines


class Plain:
    def process_item(self, item: Any) -> Any:
        return [*item, "plain"]


class Slow:
    async def process_item(self, item: Any) -> Any:
        await asyncio.sleep(0)
        return [*item, "slow"]


class WithDeferred:
    def process_item(self, item: Any) -> Any:
        return succeed([*item, "deferred"])


class WithSpider:
    def process_item(self, item: Any, spider: Spider) -> Any:
        return [*item, spider.name]


@pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning")
@pytest.mark.parametrize("manager", [ItemPipelines, ItemPipelineManager])
async def test_an_item_passes_every_kind_of_pipeline_in_order(manager: Any) -> None:
    pipelines = manager(Plain(), Slow(), WithDeferred(), WithSpider(), crawler=crawler_of())
    passed = await pipelines.process_item_async([])
    assert passed == ["plain", "slow", "deferred", "nothing"]


# Signals

HEARD, OTHER = object(), object()


class Sender:
    """As a crawler is: when it is gone, so are its receivers. A plain object has none to notice
    that, and the next one may be taken for it."""


@pytest.fixture(params=[Signals, SignalManager])
def signals(request: pytest.FixtureRequest) -> Any:
    return request.param(Sender())


async def test_a_signal_that_nobody_hears_has_no_replies(signals: Any) -> None:
    receiver = lambda: 1  # noqa: E731
    signals.connect(receiver, OTHER)
    assert signals.send_catch_log(HEARD, spider=None) == []
    assert await signals.send_catch_log_async(HEARD, spider=None) == []


async def test_all_receivers_of_a_signal_reply_the_waiting_ones_too(signals: Any) -> None:
    def plain(item: str) -> str:
        return f"plain {item}"

    async def slow(item: str) -> str:
        await asyncio.sleep(0)
        return f"slow {item}"

    for receiver in (plain, slow):
        signals.connect(receiver, HEARD)
    replies = await signals.send_catch_log_async(HEARD, item="x", spider=None)
    assert dict(replies) == {plain: "plain x", slow: "slow x"}


async def test_a_failing_receiver_is_logged_and_keeps_no_other_from_hearing(
    signals: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise ValueError("broken")

    async def broken_later() -> None:
        raise ValueError("broken later")

    def refusing() -> None:
        raise StopDownload

    def sound() -> str:
        return "heard"

    for receiver in (broken, broken_later, refusing, sound):
        signals.connect(receiver, HEARD)
    with caplog.at_level(logging.ERROR):
        replies = dict(
            await signals.send_catch_log_async(HEARD, dont_log=StopDownload, spider=None)
        )
    assert replies[sound] == "heard"
    assert isinstance(replies[broken], ValueError)
    assert isinstance(replies[refusing], StopDownload)
    assert len(caplog.records) == 2


class Ears:
    """Receivers of every kind; each replies with what it was given."""

    def method(self, item: str, *, spider: Any = "not asked for") -> Any:
        return item, spider

    def everything(self, **named: Any) -> Any:
        return sorted(named)

    def __call__(self, spider: Any, item: str) -> Any:
        return spider, item

    @classmethod
    def by_class(cls, signal: Any) -> Any:
        return signal

    @staticmethod
    def static(sender: Any, item: str = "") -> Any:
        return item


async def test_a_receiver_is_given_what_it_has_parameters_for(signals: Any) -> None:
    ears = Ears()
    receivers = [ears.method, ears.everything, Ears.by_class, Ears.static]
    for receiver in receivers:
        signals.connect(receiver, HEARD)
    named = ["item", "sender", "signal", "spider"]
    expected = [("x", "not asked for"), named, HEARD, "x"]
    for _ in range(2):
        replies = dict(signals.send_catch_log(HEARD, item="x", spider="s"))
        assert [replies[receiver] for receiver in receivers] == expected
        replies = dict(await signals.send_catch_log_async(HEARD, item="x", spider="s"))
        assert [replies[receiver] for receiver in receivers] == expected


def test_an_object_that_can_be_called_is_a_receiver(signals: Any) -> None:
    ears = Ears()
    signals.connect(ears, HEARD)
    assert signals.send_catch_log(HEARD, item="x", spider="s") == [(ears, ("s", "x"))]


def test_a_receiver_that_fails_at_once_replies_with_its_failure(
    signals: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise ValueError("broken")

    def wants_more(unknown: Any) -> None:
        pass

    def quiet() -> None:
        raise KeyError

    def refusing() -> None:
        raise StopDownload

    def promising() -> Deferred[None]:
        return Deferred()

    receivers = (broken, wants_more, quiet, refusing, promising)
    for receiver in receivers:
        signals.connect(receiver, HEARD)
    with caplog.at_level(logging.ERROR):
        replies = dict(signals.send_catch_log(HEARD, dont_log=KeyError, spider=None))
    kinds = [replies[receiver].type for receiver in receivers[:-1]]
    assert kinds == [ValueError, TypeError, KeyError, StopDownload]
    assert isinstance(replies[promising], Deferred)
    assert sorted(record.getMessage().partition(":")[0] for record in caplog.records) == [
        "Cannot return deferreds from signal handler",
        "Error caught on signal handler",
        "Error caught on signal handler",
    ]


# The downloader's slots


@pytest.mark.parametrize(
    "url",
    [
        "http://Example.com/a/b",
        "https://user:pass@example.com:8443/",
        "http://example.com?x=1/2",
        "http://[::1]:8000/x",
        "file:///tmp/x",
        "data:,x",
    ],
)
@pytest.mark.parametrize("meta", [{}, {"download_slot": "own"}])
async def test_a_request_has_the_slot_that_it_has_with_scrapy(
    url: str, meta: dict[str, Any]
) -> None:
    request = Request(url, meta=meta)
    crawler = crawler_of(DOWNLOAD_HANDLERS=dict.fromkeys(("http", "https")))
    slots = {kind(crawler).get_slot_key(request) for kind in (Downloader, ScrapyDownloader)}
    assert len(slots) == 1


# Downloader middlewares


class Async:
    async def process_request(self, request: Request) -> None:
        request.meta["met"] = [*request.meta.get("met", ()), "async"]

    async def process_response(self, request: Request, response: Response) -> Response:
        return response.replace(body=response.body + b" async")


class Sync:
    def process_request(self, request: Request) -> None:
        request.meta["met"] = [*request.meta.get("met", ()), "sync"]

    def process_response(self, request: Request, response: Response) -> Response:
        return response.replace(body=response.body + b" sync")


class Answering:
    def process_request(self, request: Request) -> Response:
        return Response(request.url, body=b"kept")


class Redirecting:
    def process_response(self, request: Request, response: Response) -> Request:
        return Request("http://a.test/elsewhere")


class Wrong:
    def process_request(self, request: Request) -> str:
        return "what?"


class WrongLater:
    def process_response(self, request: Request, response: Response) -> None:
        return None


async def fetch(request: Request) -> Response:
    return TextResponse(request.url, body=b"fetched")


@pytest.fixture(params=[Middlewares, DownloaderMiddlewareManager])
def download(request: pytest.FixtureRequest) -> Callable[..., Any]:
    async def run(*middlewares: Any) -> Any:
        manager = request.param(*middlewares, crawler=crawler_of())
        return await manager.download_async(fetch, asked)

    asked = Request("http://a.test/")
    run.asked = asked  # type: ignore[attr-defined]
    return run


async def test_a_request_and_its_response_pass_all_middlewares_waiting_or_not(
    download: Any,
) -> None:
    assert (await download(Async(), Sync())).body == b"fetched sync async"
    assert download.asked.meta["met"] == ["async", "sync"]


async def test_a_middleware_can_answer_in_the_place_of_the_server(download: Any) -> None:
    assert (await download(Answering(), Sync())).body == b"kept sync"


async def test_a_middleware_can_send_a_request_elsewhere(download: Any) -> None:
    assert (await download(Sync(), Redirecting())).url == "http://a.test/elsewhere"


@pytest.mark.parametrize("wrong", [Wrong(), WrongLater()])
async def test_a_middleware_that_returns_something_else_is_told_so(
    download: Any, wrong: Any
) -> None:
    with pytest.raises(_InvalidOutput, match="must return"):
        await download(wrong)


# Downloader


class Counting:
    """A download handler that tells how many it has at a time."""

    lazy = False
    now = most = 0

    def __init__(self) -> None:
        Counting.last = self  # type: ignore[attr-defined]

    async def download_request(self, request: Request) -> Response:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01)
        self.now -= 1
        return Response(request.url)

    async def close(self) -> None:
        pass


async def most_at_a_time(downloader_class: Any, **settings: Any) -> Counting:
    only = dict.fromkeys(("https", "ftp", "s3", "data", "file"))
    crawler = crawler_of(DOWNLOAD_HANDLERS={**only, "http": Counting}, **settings)
    crawler.stats = Stats(crawler)
    downloader = downloader_class(crawler)
    pages = [Request(f"http://a.test/{number}") for number in range(6)]
    fetches = [maybe_deferred_to_future(downloader.fetch(page)) for page in pages]
    fetched = await asyncio.gather(*fetches)
    assert [one.url for one in fetched] == [page.url for page in pages]
    assert not downloader.active and not downloader.slots["a.test"].active
    downloader.close()
    handler: Counting = Counting.last  # type: ignore[attr-defined]
    return handler


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_a_limit_of_scrapys_own_holds_as_it_does_in_scrapy(limit: int) -> None:
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": limit}
    ours = await most_at_a_time(Downloader, **settings)
    theirs = await most_at_a_time(ScrapyDownloader, **settings)
    assert 1 <= ours.most <= theirs.most


async def test_a_delay_of_scrapys_own_holds() -> None:
    began_s = time.monotonic()
    await most_at_a_time(Downloader, DOWNLOAD_DELAY=0.05, DOWNLOAD_DELAY_JITTER=0)
    assert time.monotonic() - began_s >= 5 * 0.05
