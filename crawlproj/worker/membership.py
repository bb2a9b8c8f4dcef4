"""A worker's part in a crawl: it finds its place, joins the crawl or waits for one to begin, works
at it, and leaves."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

from crawlproj.config import Config, asked_for
from crawlproj.errors import CrawlError
from crawlproj.frontier.messages import Arrival
from crawlproj.running import announce, withdraw
from crawlproj.worker import identity, join
from crawlproj.worker.assembly import assemble
from crawlproj.worker.next_crawl import NextCrawl, make_next_crawl

if TYPE_CHECKING:
    from scrapy import Request

    from crawlproj.worker.crawl import Crawl
    from crawlproj.worker.process import WorkerProcess

logger = logging.getLogger(__name__)


class Membership:
    """Of one worker, whichever crawl it joins."""

    def __init__(self, process: WorkerProcess, config: Config) -> None:
        self._process = process
        self._config = config
        self._next_crawl: NextCrawl | None = None
        self._waiting: asyncio.Task[None] | None = None
        self.crawl: Crawl | None = None
        """Set once this worker is at work."""
        self._early: list[Request] = []
        """What the spider came up with before there was a crawl to work at."""

    async def begin(self) -> None:
        """Join, or wait in the background until there is something to join."""
        process = self._process
        join.warn_of_ignored_settings(process.crawler.settings, process.frontier.crawl)
        if not await self._join(Arrival(brings_seed=bool(self._config.seeds))):
            self._next_crawl = make_next_crawl(process, self._config, lambda: bool(self._early))
            self._waiting = asyncio.create_task(self._wait(self._next_crawl))

    async def end(self) -> None:
        """Leave the crawl, or leave without having found one."""
        if self.crawl is not None:
            await self.crawl.close()
        elif self._waiting is not None and self._next_crawl is not None:
            self._waiting.cancel()
            with suppress(CrawlError, RedisError):
                await self._next_crawl.leave()
            await self._process.frontier.close()

    def enqueue(self, request: Request) -> bool:
        """Take in a request, or keep it until there is a crawl; False if it is not wanted."""
        if self.crawl is not None:
            return self.crawl.entrance.requests.enqueue(request)
        self._early.append(request)
        return True

    @property
    def backlog(self) -> int:
        """Requests and links that are not in the frontier yet."""
        return len(self._early) if self.crawl is None else self.crawl.worker.backlog

    # Joining

    async def _join(self, arrival: Arrival) -> bool:
        """Begin, join or resume the crawl and go to work; False if there is nothing to work at."""
        process = self._process
        plan = await join.join(
            process.frontier,
            self._config,
            asked_for(process.crawler.settings),
            spider=process.spider.name,
            arrival=arrival,
        )
        if plan is None:
            return False
        await identity.claim_name(process.frontier, self._config.lease_timeout_s)
        try:
            await self._go_to_work(assemble(process, self._config))
        except BaseException:
            with suppress(CrawlError, RedisError):
                await process.frontier.leave()
            raise
        return True

    async def _go_to_work(self, crawl: Crawl) -> None:
        crawler, engine = self._process.crawler, self._process.engine
        crawl.tracking.listen(crawler, engine)
        engine.patch_engine()
        is_given = bool(crawler.settings.getpriority("RETRY_TIMES"))
        engine.limit_retries(crawl.frontier.plan.max_attempts - 1, is_given=is_given)
        announce(crawler, crawl)
        try:
            await crawl.start()
        except BaseException:
            withdraw(crawler)
            raise
        self.crawl = crawl
        early, self._early = self._early, []
        for request in early:
            self.enqueue(request)

    # Waiting for a crawl

    async def _wait(self, next_crawl: NextCrawl) -> None:
        try:
            while not await self._look(next_crawl):
                pass
        except Exception as error:
            is_known = isinstance(error, CrawlError)
            logger.error("%s", error, exc_info=None if is_known else error)
            self._process.engine.close("could not start")

    async def _look(self, next_crawl: NextCrawl) -> bool:
        """Wait for something to do, or for the end; True if waiting is over."""
        epoch = self._process.frontier.shards[0].epoch
        found = await next_crawl.wait()
        if found in ("stopped", "drained", "nothing"):
            reason = self._process.idle.reason if found == "nothing" else found
            self._process.engine.close(reason or "finished")
            return True
        at = "" if found == "own seed" else epoch
        arrival = Arrival(found != "crawl", at, next_crawl.dismissals)
        return await next_crawl.outages.retry_until_available(partial(self._join, arrival))
