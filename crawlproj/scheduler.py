"""Scrapy's verbs → the frontier, and nothing else. No Redis command stands here.

`enqueue_request` collects, `next_request` takes what has been leased ahead, and a request that
has ended is settled; the exchange with Redis happens in the background, in worker/exchange.py.
How a worker comes to a crawl is in worker/membership.py.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import CloseSpider
from scrapy.utils.defer import deferred_from_coro
from scrapy_redis import scheduler as scrapy_redis_scheduler

from crawlproj.config import Config, crawl_name, doubtful_variables, unknown_names
from crawlproj.engine.versions import refuse_unfit
from crawlproj.engine.watch import EngineWatch
from crawlproj.errors import CrawlError
from crawlproj.frontier.worker_names import plain
from crawlproj.output.worker_output import WorkerOutput
from crawlproj.running import SharesFrontier
from crawlproj.server import connection
from crawlproj.worker.idle import Idle
from crawlproj.worker.membership import Membership
from crawlproj.worker.process import WorkerProcess, open_frontier
from crawlproj.worker.seen_filter import SeenFilter

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred


logger = logging.getLogger(__name__)


class Scheduler(SharesFrontier, scrapy_redis_scheduler.Scheduler):  # type: ignore[misc]
    """`SCHEDULER` of a project: scrapy-redis's settings, our frontier."""

    df: SeenFilter
    _member: Membership | None
    """None unless the crawl could be opened."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Scheduler:
        resolved = connection.resolve(crawler.settings)
        if resolved.notice:
            logger.warning("%s", resolved.notice)
        # scrapy-redis would connect here, and wait for the answer: the frontier has its own client.
        idle_s = crawler.settings.getint("SCHEDULER_IDLE_BEFORE_CLOSE")
        self = cls(server=None, idle_before_close=idle_s)
        self.stats = crawler.stats
        self._config = Config.from_settings(crawler.settings)
        if others := unknown_names(crawler.settings):
            logger.info("Left alone as settings of others: %s", ", ".join(others))
        for doubt in doubtful_variables():
            logger.warning("%s", doubt)
        self._crawler = crawler
        self._resolved = resolved
        self._engine = EngineWatch(crawler)
        self._member = None
        return self

    # Opening and closing

    def open(self, spider: Spider) -> Deferred[None]:
        self._engine.close_what_opens()
        return deferred_from_coro(self._open(spider))

    def close(self, reason: str) -> Deferred[None]:
        return deferred_from_coro(self._close())

    async def _open(self, spider: Spider) -> None:
        self.spider = spider
        try:
            refuse_unfit()
            member = Membership(await self._worker_process(spider), self._config)
            await member.begin()
            self._member = member
        except CrawlError as error:
            logger.error("%s", error)
            # Not raised from here: the engine cannot close cleanly what it has not opened yet.
            self._crawler.signals.connect(self._decline, signals.spider_opened)

    async def _worker_process(self, spider: Spider) -> WorkerProcess:
        settings, config = self._crawler.settings, self._config
        idle = Idle(self._crawler, self._has_more)
        crawl = crawl_name(settings, spider)
        frontier = await open_frontier(self._resolved, config, settings, crawl)
        self.df = SeenFilter.from_spider(spider)
        output = WorkerOutput(self._crawler, plain(frontier.worker), config.reports)
        if config.store:
            await output.open_store(config.store, frontier)
        return WorkerProcess(
            crawler=self._crawler,
            spider=spider,
            engine=self._engine,
            output=output,
            redis=self._resolved,
            frontier=frontier,
            seen=self.df,
            idle=idle,
            idle_s=float(max(self.idle_before_close, getattr(spider, "max_idle_time", 0))),
            has_more=self._has_more,
        )

    def _has_more(self) -> bool:
        return self._engine.is_starting or len(self) > 0

    def _decline(self) -> None:
        raise CloseSpider("could not start")

    async def _close(self) -> None:
        if self._member is not None:
            await self._member.end()

    # Scrapy's verbs

    def enqueue_request(self, request: Request) -> bool:
        return self._member is not None and self._member.enqueue(request)

    def next_request(self) -> Request | None:
        crawl = self._member and self._member.crawl
        request = crawl.admission.next_request() if crawl else None
        if request is not None:
            self.stats.inc_value("scheduler/dequeued/redis")
        return request

    def has_pending_requests(self) -> bool:
        """True until the crawl is over: then the spider is closed by who notices, for a reason."""
        return True

    def __len__(self) -> int:
        return 0 if self._member is None else self._member.backlog

    def __bool__(self) -> bool:
        """Not false for being empty, as its length would have it."""
        return True
