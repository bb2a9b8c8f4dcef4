"""A small real crawl that prints, as JSON, what EngineWatch told of it, in the order it did.

Run by test_engine.py: python -m tests.contract.engine_probe http://127.0.0.1:PORT [quick]
With `quick`, through the engine as crawlproj/engine has it, else through Scrapy's own.
Each request is named in its meta; what middlewares make of it keeps the name.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import scrapy
from scrapy import Request, signals
from scrapy.core import scraper
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.exceptions import DontCloseSpider, IgnoreRequest
from scrapy.utils import asyncio as scrapy_asyncio

from crawlproj.engine.flow import Flow
from crawlproj.engine.watch import EngineWatch

events: list[str] = []


def tell(what: str, request: Request) -> None:
    events.append(f"{what} {request.meta['name']} {request.url.rpartition('/')[2]}")


class Dropping:
    """Refuses what is named so: a downloader middleware and a spider middleware in one."""

    def process_request(self, request: Request) -> None:
        if request.meta["name"] == "dropped":
            raise IgnoreRequest("not today")

    def process_spider_input(self, response: Any) -> None:
        if response.meta["name"] == "unwanted":
            raise ValueError("not this answer")


class SlowPipeline:
    async def process_item(self, item: Any) -> Any:
        await asyncio.sleep(0.01)
        events.append(f"item {item['name']}")
        return item


class ProbeSpider(scrapy.Spider):
    name = "probe"
    origin = ""
    quick = False
    watch: EngineWatch
    ending: asyncio.Future[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> ProbeSpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.opened, signals.spider_opened)
        crawler.signals.connect(spider.idle, signals.spider_idle)
        spider.watch = EngineWatch(crawler)
        return spider

    def opened(self) -> None:
        if self.quick:
            self.watch.patch_engine()
        self.watch.on_end(lambda request: tell("end", request))
        self.watch.on_download_error(
            lambda request, error: tell(f"error {type(error).__name__}", request)
        )
        self.watch.on_callback(lambda response: tell("callback", response.request))

    async def start(self) -> AsyncIterator[Request]:
        for path, name in [
            ("page", "callback"),
            ("page", "callback-error"),
            ("page", "unwanted"),
            ("missing", "errback"),
            ("missing", "no-errback"),
            ("missing", "wanted"),
            ("page", "dropped"),
            ("reset", "failed"),
            ("moved", "redirect"),
            ("flaky", "retry"),
        ]:
            meta = {"name": name, "dont_retry": name == "failed"}
            meta["handle_httpstatus_list"] = [404] if name == "wanted" else []
            errback = None if name == "no-errback" else self.failed
            yield Request(
                f"{self.origin}/{path}", meta=meta, errback=errback, dont_filter=True, priority=1
            )

    async def parse(self, response: Any) -> AsyncIterator[Any]:
        if response.meta["name"] == "callback-error":
            raise RuntimeError("a bug in the spider")
        yield {"name": response.meta["name"]}
        await asyncio.sleep(0.01)
        events.append(f"parsed {response.meta['name']}")

    def failed(self, failure: Any) -> None:
        tell(f"errback {failure.type.__name__}", failure.request)

    def idle(self) -> None:
        if self.ending is None:
            self.ending = asyncio.ensure_future(self.end())
        raise DontCloseSpider

    async def end(self) -> None:
        assert not self.watch.takes_nothing
        way: Any = self.crawler.engine._start_scheduled_request
        assert (type(way.__self__) is Flow) == self.quick
        assert await self.watch.process_item({"name": "not-for-it"}, ()) == {"name": "not-for-it"}
        await self.watch.process_item({"name": "of-no-page"}, (SlowPipeline,))
        self.watch.wake()
        self.watch.close("told to")
        while not self.watch.takes_nothing:
            await asyncio.sleep(0)
        self.watch.wake()
        self.watch.close("only the first counts")


VARIES = ("downloader/response_bytes", "log_", "memusage")
QUICK = {
    "STATS_CLASS": "crawlproj.engine.parts.Stats",
    "DOWNLOADER": "crawlproj.engine.parts.Downloader",
    "ITEM_PROCESSOR": "crawlproj.engine.parts.ItemPipelines",
    "CONCURRENT_ITEMS": 1,
}


def main(origin: str, quick: bool) -> None:
    process = CrawlerProcess(
        {
            **(QUICK if quick else {}),
            "DOWNLOADER_MIDDLEWARES": {Dropping: 10},
            "SPIDER_MIDDLEWARES": {Dropping: 10},
            "ITEM_PIPELINES": {SlowPipeline: 10},
            "RETRY_TIMES": 2,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_LEVEL": "CRITICAL",
        }
    )
    crawler = process.create_crawler(ProbeSpider)
    process.crawl(crawler, origin=origin, quick=quick)
    process.start()
    assert scraper._parallel_asyncio is scrapy_asyncio._parallel_asyncio, "for this engine alone"
    assert crawler.stats is not None
    counts = {
        name: value
        for name, value in crawler.stats.get_stats().items()
        if isinstance(value, int) and not name.startswith(VARIES)
    }
    reason = crawler.stats.get_value("finish_reason")
    print(json.dumps({"events": events, "reason": reason, "counts": counts}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] == ["quick"])
