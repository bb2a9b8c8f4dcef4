"""Scrapy's verbs → the frontier. No Redis command stands here.

`enqueue_request` collects, `next_request` takes what has been leased ahead, and a request that
has ended is settled; the exchange with Redis happens in the background, in worker/exchange.py.
What works at a crawl is put together by worker/assembly.py.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from redis.exceptions import RedisError
from scrapy import signals
from scrapy.exceptions import CloseSpider
from scrapy.utils.defer import deferred_from_coro
from scrapy_redis import scheduler as scrapy_redis_scheduler

from crawlproj.config import Config, asked_for, crawl_name, of_others
from crawlproj.engine.watch import EngineWatch
from crawlproj.errors import CrawlError
from crawlproj.frontier import worker_names
from crawlproj.frontier.outcomes import Held
from crawlproj.output.reports import Reports
from crawlproj.running import SharesFrontier, announce, withdraw
from crawlproj.server import connection
from crawlproj.worker import identity, join
from crawlproj.worker.assembly import assemble, open_frontier
from crawlproj.worker.crawl import Crawl
from crawlproj.worker.idle import Idle
from crawlproj.worker.place import Place
from crawlproj.worker.seen_filter import SeenFilter
from crawlproj.worker.waiting import Waiting

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

logger = logging.getLogger(__name__)


class Scheduler(SharesFrontier, scrapy_redis_scheduler.Scheduler):  # type: ignore[misc]
    """`SCHEDULER` of a project: scrapy-redis's settings, our frontier."""

    df: SeenFilter
    _place: Place
    _crawl: Crawl | None
    """Set once this worker is at work."""
    _waiting: Waiting | None
    _early: list[Request]
    """What the spider came up with before there was a crawl to work at."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Scheduler:
        resolved = connection.resolve(crawler.settings)
        if resolved.notice:
            logger.warning("%s", resolved.notice)
        try:
            self: Scheduler = super().from_crawler(crawler)
        except RedisError:
            self = cls(server=None)  # open() says what is wrong, in one line
            self.stats = crawler.stats
        self._config = Config.from_settings(crawler.settings)
        if others := of_others(crawler.settings):
            logger.info("Left alone as settings of others: %s", ", ".join(others))
        self._crawler = crawler
        self._resolved = resolved
        self._engine = EngineWatch(crawler)
        self._crawl = self._waiting = None
        self._early = []
        return self

    # Opening and closing

    def open(self, spider: Spider) -> Deferred[None]:
        return deferred_from_coro(self._open(spider))

    def close(self, reason: str) -> Deferred[None]:
        return deferred_from_coro(self._close())

    async def _open(self, spider: Spider) -> None:
        self.spider = spider
        try:
            self._place = await self._find_place(spider)
            join.say_what_is_not_heeded(self._crawler.settings, self._place.frontier.crawl)
            if not await self._join(brings_seed=bool(self._config.seeds)):
                self._waiting = Waiting(
                    self._place, self._config, self._join, brings_own=lambda: bool(self._early)
                )
        except CrawlError as error:
            logger.error("%s", error)
            # Not raised from here: the engine cannot close cleanly what it has not opened yet.
            self._crawler.signals.connect(self._decline, signals.spider_opened)

    async def _find_place(self, spider: Spider) -> Place:
        settings, config = self._crawler.settings, self._config
        idle = Idle(self._crawler, self._has_more)
        crawl = crawl_name(settings, spider)
        frontier = await open_frontier(self._resolved, config, settings, crawl)
        return Place(
            crawler=self._crawler,
            spider=spider,
            engine=self._engine,
            reports=Reports(self._crawler, worker_names.plain(frontier.worker), config.reports),
            redis=self._resolved,
            frontier=frontier,
            idle=idle,
            idle_s=float(max(self.idle_before_close, getattr(spider, "max_idle_time", 0))),
            has_more=self._has_more,
        )

    async def _join(self, *, brings_seed: bool, seed_found_at: str = "") -> bool:
        """Begin, join or resume the crawl and go to work; False if there is nothing to work at."""
        frontier = self._place.frontier
        config = await join.join(
            frontier,
            self._config,
            asked_for(self._crawler.settings),
            spider=self.spider.name,
            brings_seed=brings_seed,
            seed_found_at=seed_found_at,
        )
        if config is None:
            return False
        await identity.evict_namesake(frontier)
        await self._go_to_work(assemble(self._place, config))
        return True

    async def _go_to_work(self, crawl: Crawl) -> None:
        crawl.tracking.listen(self._crawler, self._engine)
        self._engine.patch_engine()
        is_given = bool(self._crawler.settings.getpriority("RETRY_TIMES"))
        self._engine.limit_retries(crawl.frontier.limits.max_attempts - 1, is_given=is_given)
        announce(self._crawler, crawl)
        try:
            await crawl.start()
        except BaseException:
            withdraw(self._crawler)
            raise
        self._crawl, self.df = crawl, crawl.seen
        early, self._early = self._early, []
        for request in early:
            self.enqueue_request(request)

    def _has_more(self) -> bool:
        return self._engine.is_starting or len(self) > 0

    def _decline(self) -> None:
        raise CloseSpider("could not start")

    async def _close(self) -> None:
        if self._crawl is not None:
            await self._crawl.close()
        elif self._waiting is not None:
            await self._waiting.end()

    # Scrapy's verbs

    def enqueue_request(self, request: Request) -> bool:
        if self._crawl is None:
            self._early.append(request)
            return True
        return self._crawl.requests.enqueue(request)

    def next_request(self) -> Request | None:
        crawl = self._crawl
        if crawl is None or (crawl.groups and crawl.groups.is_full):
            return None
        while lease := crawl.worker.take():
            held = Held(lease, crawl.worker.now)
            if crawl.groups and crawl.groups.seek(held):
                continue
            request = crawl.admission.request_of(held)
            if request is not None:
                crawl.tracking.begin(request, held)
                self.stats.inc_value("scheduler/dequeued/redis")
                return request
            crawl.worker.end(held, held.since)
        return None

    def has_pending_requests(self) -> bool:
        """True until the crawl is over: then the spider is closed by who notices, for a reason."""
        return True

    def __len__(self) -> int:
        return len(self._early) if self._crawl is None else self._crawl.worker.backlog

    def __bool__(self) -> bool:
        """Not false for being empty, as its length would have it."""
        return True
