"""Waits for the next crawl while there is nothing to work at: none has begun, or it has finished.

A crawl begins with its first seed. Until one comes, a worker that waits changes nothing but that it
is listed as one; it leaves when it is stopped, or after `patience_s`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from crawlproj.config import Config
from crawlproj.discover.seeds import (
    AT_ONCE,
    LOOK_EVERY_S,
    TROUBLE,
    MakeRequests,
    Refused,
    SeedList,
    make_requests,
    noting_refusal,
    seed_maker,
)
from crawlproj.frontier import noticeboard
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.noticeboard import CrawlSeen
from crawlproj.frontier.refusals import CrawlReplaced, CrawlWiped
from crawlproj.running import Tally
from crawlproj.server.connection import mask
from crawlproj.urls import normalise
from crawlproj.worker import join
from crawlproj.worker.heartbeat import BEATS_A_TIMEOUT
from crawlproj.worker.heartbeat_report import HeartbeatReport
from crawlproj.worker.idle import Idle
from crawlproj.worker.outages import Outages
from crawlproj.worker.process import WorkerProcess

logger = logging.getLogger(__name__)

Found = Literal["own seed", "seed", "crawl", "stopped", "drained", "nothing"]


@dataclass
class NextCrawl:
    """`make` raises for a seed that cannot be used; `brings_own` tells whether the spider has
    come up with one by itself, `may_bring` whether it still may without being told that it is
    `idle`."""

    frontier: Frontier
    seeds: SeedList
    redis: str
    folder: Path
    make: MakeRequests
    brings_own: Callable[[], bool]
    may_bring: Callable[[], bool]
    lease_timeout_s: float
    idle: Idle
    patience_s: float

    def __post_init__(self) -> None:
        self.outages = Outages(self.frontier.reconnect, self._renew)
        self._report = HeartbeatReport(Tally(), self.lease_timeout_s)
        self.dismissals: int | None = None
        """How many there had been when it began to wait: one more, and this worker is stopped."""

    async def wait(self) -> Found:
        """Returns when there is something to do, and what."""
        retry_until_available = self.outages.retry_until_available
        began, before, trouble = time.monotonic(), await retry_until_available(self._read), ""
        if self.dismissals is None:
            self.dismissals = before.dismissals
        self._shown_at = float("-inf")
        has_greeted = False
        while True:
            try:
                found = await retry_until_available(partial(self._find, before))
            except TROUBLE as error:
                found, trouble = None, _warn_once(trouble, error)
            if found:
                return found
            # Asked once more: start() may have yielded its last request while Redis was asked.
            if not self.may_bring() and not self.brings_own():
                if not has_greeted:
                    has_greeted = True
                    self._log_waiting(before.state)
                waited_s = time.monotonic() - began
                if self.idle.may_end(0) and (self.idle.reason or waited_s >= self.patience_s):
                    return "nothing"
            await asyncio.sleep(LOOK_EVERY_S)

    def _log_waiting(self, state: str) -> None:
        """Say at what this worker waits, and for what."""
        crawl, begun = self.frontier.crawl, "has not begun yet"
        if state == "finished":
            begun = f"has finished, and its results are in {self.folder}"
        logger.info(
            "The crawl %r %s. This worker waits for seeds, with the first of which a new one "
            "begins: push them to %s of the Redis at %s (scrapy seed %s URL)",
            crawl,
            begun,
            self.seeds.key,
            self.redis,
            crawl,
        )
        if state == "paused":
            logger.warning("It is paused: scrapy resume %s lets its workers go on", crawl)

    async def leave(self) -> None:
        """Say goodbye, and stop what was to be stopped, if this was the last."""
        shard = self.frontier.shards[0]
        await shard.leave(self.frontier.worker)
        if (await self._read()).state == "stopping":
            await shard.finish()

    async def _find(self, before: CrawlSeen) -> Found | None:
        now = await self._read()
        if now.dismissals < (self.dismissals or 0):  # it was purged: all of these have come since
            self.dismissals = 0
        is_dismissed = now.dismissals > (self.dismissals or 0)
        if is_dismissed or (now.waits and now.state == "stopping"):
            return "stopped"
        if now.is_to_leave:
            logger.info("This worker was taken out of service: it leaves")
            return "drained"
        if self.brings_own():
            return "own seed"
        if now.epoch != before.epoch or (now.state != "finished" and not now.waits):
            return "crawl"
        if await self._has_seed():
            return "seed"
        await self._register()
        return None

    async def _read(self) -> CrawlSeen:
        return await noticeboard.look(self.frontier)

    async def _has_seed(self) -> bool:
        """Whether one waits that can be used: nothing ends or begins with one that cannot."""
        if not await self.seeds.size():
            return False
        async with self.seeds.turn() as mine:
            return mine and await self._refuse_unusable()

    async def _refuse_unusable(self) -> bool:
        """Set aside the seeds before the first that can be used; True if there is one."""
        for data in await self.seeds.peek(AT_ONCE):
            refused: list[Refused] = []
            with noting_refusal(data, refused):
                for request in make_requests(self.make, data):
                    normalise(request.url)
            if not refused:
                return True
            await self.seeds.refuse(*refused[0])
            await self.seeds.remove([data])
        return False

    async def _register(self) -> None:
        """Be among the workers that the crawl's status lists."""
        if time.monotonic() - self._shown_at >= self.lease_timeout_s / BEATS_A_TIMEOUT:
            await self._renew()
            self._shown_at = time.monotonic()

    async def _renew(self) -> None:
        """The heartbeat, which also proves that Redis can be written to."""
        timeout_ms, about = int(self.lease_timeout_s * 1000), self._report.fields(0)
        with suppress(CrawlWiped, CrawlReplaced):  # another has begun: that shows the next time
            await self.frontier.shards[0].renew(self.frontier.worker, timeout_ms, about)


def make_next_crawl(
    process: WorkerProcess, config: Config, brings_own: Callable[[], bool]
) -> NextCrawl:
    """For a worker that has found nothing to work at."""
    frontier, spider = process.frontier, process.spider
    settings, crawl = process.crawler.settings, frontier.crawl
    is_patient = config.stay or join.waits_for_ever(spider) or not process.idle_s
    return NextCrawl(
        frontier,
        join.seed_list(frontier.client, settings, spider, crawl),
        redis=mask(process.redis.url),
        folder=config.folder_of(crawl),
        make=seed_maker(spider),
        brings_own=brings_own,
        may_bring=lambda: process.engine.is_starting,
        lease_timeout_s=config.lease_timeout_s,
        idle=process.idle,
        patience_s=float("inf") if is_patient else process.idle_s,
    )


def _warn_once(before: str, error: Exception) -> str:
    """Say once what keeps seeds from being seen."""
    if str(error) != before:
        logger.warning("Seeds wait: %s", error)
    return str(error)
