"""Live progress: a row of stats each interval and a line in the log, or on a terminal a live block
under it; a summary at the end."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from redis.exceptions import RedisError
from scrapy import signals
from scrapy.exceptions import NotConfigured

from crawlproj.config import Config, crawl_name
from crawlproj.errors import CrawlError
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.refusals import CrawlWiped
from crawlproj.frontier.survey import Tick, tick
from crawlproj.frontier.worker_names import plain
from crawlproj.items import StatsItem, utc_timestamp
from crawlproj.operate import status
from crawlproj.operate.live_block import LiveBlock
from crawlproj.output import folder, summary
from crawlproj.output.report_feeds import ReportFeeds
from crawlproj.plural import counted
from crawlproj.running import RunningCrawl, Tally, running_crawl, when_joined
from crawlproj.server import connection

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)


class Progress:
    """Reports what this worker does and how the crawl stands."""

    def __init__(self, crawler: Crawler, folder: Path, interval_s: float) -> None:
        self._crawler = crawler
        self._feeds = ReportFeeds(crawler)
        self._folder = folder
        self._interval_s = interval_s
        self._before = Tally()
        self._before_at = time.monotonic()
        self._last = Tick()
        self._task: asyncio.Task[None] | None = None
        self._block = LiveBlock()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        config = Config.from_settings(crawler.settings)
        if not config.reports:
            raise NotConfigured("CRAWL_REPORTS is off")
        folder = config.folder_of(crawl_name(crawler.settings, crawler.spidercls))
        self = cls(crawler, folder, config.stats_interval_s)
        crawler.signals.connect(self._opened, signals.spider_opened)
        crawler.signals.connect(self._closed, signals.spider_closed)
        return self

    async def _opened(self) -> None:
        when_joined(self._crawler, self._begin)

    def _begin(self, crawl: RunningCrawl) -> None:
        folder.prepare(self._folder, crawl.frontier.shards[0].epoch)
        crawl.on_handed_in.append(self._write_last_row)
        self._task = asyncio.create_task(self._run())
        self._block.start(crawl)

    async def _closed(self, reason: str) -> None:
        crawl = running_crawl(self._crawler)
        if self._task is None or crawl is None:
            return
        self._task.cancel()
        await self._block.close()
        try:
            # The last worker to leave must write last, or the summary would say "running" for ever.
            async with folder.turn(self._folder):
                await self._write_summary(crawl)
        except (CrawlError, RedisError, OSError) as error:
            logger.error("The summary could not be written: %s", error)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self._tick()
            except (CrawlError, RedisError) as error:
                logger.debug("No progress to show: %s", error)

    async def _tick(self) -> None:
        crawl = running_crawl(self._crawler)
        if crawl is None:
            return
        now = self._last = await tick(crawl.frontier)
        row = await self._write_row(crawl)
        # A terminal has the same in its block, every second.
        level = logging.DEBUG if self._block.is_shown else logging.INFO
        logger.log(
            level,
            "%s here (%.1f/s) | crawl: %d done, %d queued, %d leased, %d dead, %s, %s",
            counted(self._before.pages, "page"),
            row.pages_per_s,
            now.done,
            now.queued + now.delayed,
            now.leased,
            now.dead,
            counted(now.hosts, "host"),
            counted(now.workers, "worker"),
        )

    async def _write_last_row(self) -> None:
        """The row of the interval that the worker's end has cut short."""
        crawl = running_crawl(self._crawler)
        if self._task is None or crawl is None or crawl.worker.tally == self._before:
            return
        self._task.cancel()
        with suppress(CrawlError, RedisError):  # then as it stood when it was last seen
            self._last = await tick(crawl.frontier)
        await self._write_row(crawl)

    async def _write_row(self, crawl: RunningCrawl) -> StatsItem:
        row = self._row(plain(crawl.frontier.worker), replace(crawl.worker.tally))
        await self._feeds.send(row)
        return row

    def _row(self, worker: str, done: Tally) -> StatsItem:
        """What was settled since the row before, and how the frontier stands."""
        before, now_s = self._before, time.monotonic()
        pages = done.pages - before.pages
        row = StatsItem(
            at=utc_timestamp(),
            worker=worker,
            pages=pages,
            pages_per_s=round(pages / max(now_s - self._before_at, 0.001), 2),
            bytes=done.bytes - before.bytes,
            errors=done.dead - before.dead,
            queued=self._last.queued,
            leased=self._last.leased,
            hosts=self._last.hosts,
        )
        self._before, self._before_at = done, now_s
        return row

    async def _write_summary(self, crawl: RunningCrawl) -> None:
        client = await connection.connect(*crawl.redis)
        try:
            frontier = Frontier(client, crawl.frontier.crawl, crawl.frontier.worker)
            now = await status.read(frontier, in_detail=True)
            is_last = await status.is_last_word(frontier, now)
        finally:
            await client.aclose()
        if now.epoch is None:
            raise CrawlWiped
        if now.balance != 0:
            logger.error("The ledger does not balance: %d", now.balance)
        written = status.sum_up(now)
        summary.write(self._folder, written)
        text = f"\n{summary.to_text(written)}" if is_last else f" ({summary.in_short(written)})"
        logger.info("Summary in %s%s", self._folder, text)
