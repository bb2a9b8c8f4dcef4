"""A crawl that this worker has joined: its stages, how they begin and end. They are put together in
assembly.py."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import RedisError

from crawlproj.config import Config
from crawlproj.discover.stage import LinkDiscovery
from crawlproj.errors import CrawlError
from crawlproj.fetch.cookies import SharedCookies
from crawlproj.frontier.frontier import Frontier
from crawlproj.politeness.stage import Politeness
from crawlproj.running import (
    CloserReading,
    EarlierCrawl,
    Holds,
    NearDuplicates,
    PageAttributes,
    PageExtraction,
    Permission,
    RankedLinks,
    Refresh,
)
from crawlproj.worker.admission import Admission
from crawlproj.worker.entrance import Entrance
from crawlproj.worker.exchange import Worker
from crawlproj.worker.finish import StateHandler
from crawlproj.worker.heartbeat_report import HeartbeatReport, count_exchange
from crawlproj.worker.plan_in_use import PlanInUse
from crawlproj.worker.process import WorkerProcess
from crawlproj.worker.tracking import Tracking

logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Crawl:
    """Everything that works at it in this process, in the order of a URL's way. What others may
    use of it is in running.py."""

    process: WorkerProcess
    config: Config
    plan: PlanInUse
    worker: Worker
    tracking: Tracking
    politeness: Politeness
    links: LinkDiscovery
    entrance: Entrance
    admission: Admission
    cookies: SharedCookies | None
    attributes: PageAttributes | None
    extraction: PageExtraction | None
    refresh: Refresh | None
    earlier: EarlierCrawl | None
    state_handler: StateHandler
    on_handed_in: list[Callable[[], Awaitable[None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.heartbeat_report = HeartbeatReport(self.worker.tally, self.config.lease_timeout_s)

    # For others (running.py)

    @property
    def redis(self) -> tuple[str, dict[str, Any]]:
        return self.process.redis.url, self.process.redis.params

    @property
    def frontier(self) -> Frontier:
        return self.process.frontier

    @property
    def worker_name(self) -> str:
        return self.process.worker_name

    @property
    def discovery(self) -> RankedLinks:
        return self.links.discovery

    @property
    def closer_reading(self) -> CloserReading | None:
        return self.links.closer_reading

    @property
    def near(self) -> NearDuplicates | None:
        return self.links.near

    @property
    def holds(self) -> Holds:
        return self.politeness.holds

    @property
    def permission(self) -> Permission | None:
        return self.politeness.permission

    # For membership.py

    async def start(self) -> None:
        """Begin to lease, and to take seeds in."""
        if self.earlier is not None:
            await self.earlier.open()
        await self.worker.start()
        self.entrance.open()

    async def close(self) -> None:
        """Hand everything in and take leave."""
        await self.entrance.close()
        await self.politeness.close()
        try:
            await self._hand_in()
        except (CrawlError, RedisError) as error:
            logger.warning("This worker could not take its leave: %s", error)
        finally:
            await self.frontier.close()

    async def _hand_in(self) -> None:
        await self.worker.close()
        self._count_exchange()
        if self.earlier is not None:
            await self.earlier.tell(now=True)
        for handed_in in self.on_handed_in:
            await handed_in()
        if self.worker.state == "stopping":
            await self.frontier.finish()

    # For the worker (crawl_hooks.py)

    def about_worker(self) -> dict[str, Any]:
        """What a heartbeat tells; the stats say then what the exchange has cost so far."""
        self._count_exchange()
        return self.heartbeat_report.fields(self.worker.links_without_room)

    def _count_exchange(self) -> None:
        stats = self.process.crawler.stats
        assert stats is not None
        count_exchange(stats, self.frontier, self.worker.prefetch)

    def change_plan(self) -> None:
        """Go by what has been changed of the plan while the crawl goes on."""
        if self.plan.change():
            self.links.discovery.use_rules(self.plan.rules)
