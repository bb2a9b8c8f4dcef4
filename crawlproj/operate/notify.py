"""Tells somebody when a crawl has finished, stalls or fails, or a worker is lost: CRAWL_NOTIFY.

Every worker looks now and then; Redis says who was the first to see an event, and that one tells
it, once for the whole crawl. A hook that fails or hangs harms nothing: it runs in a thread, for a
bounded time, and the log says what came of it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError
from scrapy import signals
from scrapy.exceptions import NotConfigured

from crawlproj.config import Config
from crawlproj.errors import CrawlError
from crawlproj.frontier import noticeboard
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.worker_names import plain
from crawlproj.items import utc_timestamp
from crawlproj.operate import status
from crawlproj.operate.hook import Hook, check
from crawlproj.operate.status import Status
from crawlproj.plural import counted
from crawlproj.running import RunningCrawl, running_crawl, when_joined
from crawlproj.worker.heartbeat import BEATS_A_TIMEOUT

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

FAILED = "failed"
"""Why a spider closes whose worker could not go on (worker/crawl_hooks.py)."""

Event = tuple[str, str, str]
"""What happened; which one of its kind it is, so that it is told once; a sentence about it."""


class Watcher:
    """What one worker has seen of the crawl, and what has happened since. Pure."""

    def __init__(self, stalled_s: float) -> None:
        self._stalled_s = stalled_s
        self._done, self._done_at_s = -1, 0.0
        self._silent: dict[str, str] = {}

    def events(self, now: Status, at_s: float) -> Iterator[Event]:
        """What a look at this moment shows."""
        yield from self._lost(now)
        yield from self._stalled(now, at_s)

    def _lost(self, now: Status) -> Iterator[Event]:
        """A worker counts as lost when it is silent for too long, or has gone while it was late:
        who leaves in order was heard of just before."""
        known = {worker.name for worker in now.workers}
        gone = [name for name in self._silent if name not in known]
        silent = {one.name: one.host for one in now.workers if not one.alive}
        for name, machine in {name: self._silent[name] for name in gone}.items() | silent.items():
            where = f" on {machine}" if machine else ""
            yield "worker_lost", name, f"worker {name}{where} has fallen silent"
        self._silent = {one.name: one.host for one in now.workers if one.missed >= 2}

    def _stalled(self, now: Status, at_s: float) -> Iterator[Event]:
        left = now.queued + now.delayed + now.leased
        if now.done != self._done or now.state != "running" or not left:
            self._done, self._done_at_s = now.done, at_s
        elif at_s - self._done_at_s >= self._stalled_s:
            yield (
                "stalled",
                str(now.done),
                f"no page for {self._stalled_s:.0f} s, {counted(left, 'URL')} left",
            )


class Notifier:
    """Looks at the crawl from within a worker, and tells what it is the first to see."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._hook = Hook(config.notify)
        self._watcher = Watcher(config.stalled_s)
        self._every_s = config.lease_timeout_s / BEATS_A_TIMEOUT
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        config = Config.from_settings(crawler.settings)
        if not config.notify:
            raise NotConfigured  # with a reason, Scrapy would warn of it at every start
        check(config.notify)
        self = cls(crawler, config)
        crawler.signals.connect(self._opened, signals.spider_opened)
        crawler.signals.connect(self._closed, signals.spider_closed)
        return self

    async def _opened(self) -> None:
        when_joined(self._crawler, self._begin)

    def _begin(self, crawl: RunningCrawl) -> None:
        crawl.on_handed_in.append(self._ended)
        self._task = asyncio.create_task(self._run(crawl))

    async def _run(self, crawl: RunningCrawl) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                now = await self._look(crawl)
                for event in self._watcher.events(now, time.monotonic()):
                    await self._tell(crawl, event, now)
            except (CrawlError, RedisError) as error:
                logger.debug("Nothing to notify of: %s", error)

    async def _look(self, crawl: RunningCrawl) -> Status:
        frontier = crawl.frontier
        return await status.read(Frontier(frontier.client, frontier.crawl, frontier.worker))

    async def _ended(self) -> None:
        """All that this worker had is settled: has the crawl finished, or is its time up?"""
        crawl = running_crawl(self._crawler)
        if crawl is None:
            return
        now = await self._look(crawl)
        if now.state == "finished":
            text = f"finished: {counted(now.done, 'page')}, {now.dead:,} dead"
            await self._tell(crawl, ("finished", now.finished_at or "", text), now)
        elif deadline_ms := await noticeboard.ran_out_of_time_ms(crawl.frontier):
            left = now.queued + now.delayed
            text = f"its time is up: {counted(now.done, 'page')}, {now.dead:,} dead, {left:,} left"
            await self._tell(crawl, ("finished", f"{deadline_ms:.0f}", text), now)

    async def _closed(self, reason: str) -> None:
        crawl = running_crawl(self._crawler)
        if self._task is not None:
            self._task.cancel()
        if reason == FAILED and crawl is not None:
            # Redis may be what has failed: it is not asked who was the first.
            worker = plain(crawl.frontier.worker)
            text = f"worker {worker} could not go on; its log says why"
            self._hook.send(_message(crawl, ("failed", worker, text), None))
        await self._hook.close()

    async def _tell(self, crawl: RunningCrawl, event: Event, now: Status) -> None:
        """Once for the whole crawl."""
        kind, which, _ = event
        frontier = crawl.frontier
        if await noticeboard.is_first_to(frontier, f"notified:{kind}:{which}"):
            self._hook.send(_message(crawl, event, now))


def _message(crawl: RunningCrawl, event: Event, now: Status | None) -> dict[str, Any]:
    kind, which, text = event
    counts = ("state", "epoch", "discovered", "queued", "delayed", "leased", "done", "dead")
    told: dict[str, Any] = {}
    if now is not None:
        told = {name: getattr(now, name) for name in counts} | {"filtered": dict(now.filtered)}
    name = crawl.frontier.crawl
    worker = which if kind in ("worker_lost", "failed") else ""
    return {
        "event": kind,
        "crawl": name,
        "text": f"{name}: {text}",
        "at": utc_timestamp(),
        "worker": worker,
        **told,
    }
