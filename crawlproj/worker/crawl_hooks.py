"""What the exchange with the frontier asks of the rest of its crawl, and of Scrapy."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from crawlproj.errors import CrawlError
from crawlproj.frontier.messages import Lease, Lost, Push, Settlement, State
from crawlproj.frontier.outcomes import Attempt
from crawlproj.frontier.records import summarise
from crawlproj.plural import counted
from crawlproj.urls import normalise
from crawlproj.worker.hooks import Hooks
from crawlproj.worker.process import WorkerProcess

if TYPE_CHECKING:
    from crawlproj.worker.crawl import Crawl

logger = logging.getLogger(__name__)


class CrawlHooks(Hooks):
    """Answers a worker by the other parts of its crawl, and by Scrapy."""

    crawl: Crawl
    """Set once all of it is there: the worker, which it is made of too, is given this first."""

    def __init__(self, process: WorkerProcess) -> None:
        self._process = process
        self.store = process.output.store

    async def judge(self, ended: Attempt) -> tuple[int, Settlement]:
        settlement = self.crawl.plan.retry_policy.settlement(ended)
        if self.crawl.refresh is not None:
            settlement = self.crawl.refresh.settle(ended, settlement)
        self.crawl.heartbeat_report.recent.note(ended, settlement)
        if settlement.verdict == "dead":
            await self._process.output.dead(ended, settlement.reason)
        return ended.lease.shard, settlement

    def wake(self) -> None:
        self._process.engine.wake()

    def break_off(self) -> None:
        if broken_off := self._process.engine.break_off():
            logger.warning(
                "%s broken off: Redis has been away for so long that others may soon take over "
                "what this worker holds",
                counted(broken_off, "request"),
            )

    def leave(self) -> None:
        report = self.crawl.heartbeat_report
        if not report.is_draining:
            report.is_draining = True
            logger.info("This worker was taken out of service: it hands in what it has and leaves")
            self._process.engine.close("drained")

    def is_ending(self) -> bool:
        return self._process.engine.is_ending

    def give_up(self, error: Exception) -> None:
        is_known = isinstance(error, CrawlError)
        logger.error("This worker stops: %s", error, exc_info=None if is_known else error)
        self._process.engine.close("failed")

    async def refused(self, ended: list[tuple[Attempt, int | None]]) -> None:
        if self._process.frontier.plan.speculate:
            await self._process.output.refused(ended)

    def flush_rows(self) -> None:
        self._process.output.flush_rows()

    def is_behind(self) -> bool:
        return self._process.output.is_behind

    def new_items(self) -> dict[str, int]:
        return self._process.output.new_items()

    async def obey(self, state: State) -> None:
        await self.crawl.state_handler.obey(state)

    async def prepare(self, leases: list[Lease]) -> None:
        await self.crawl.links.quarantine.refresh()
        await self.crawl.politeness.learn(leases)
        if self.crawl.cookies is not None:
            await self.crawl.cookies.learn(leases)
        if self.crawl.earlier is not None:
            await self.crawl.earlier.tell()

    async def share(self) -> None:
        if self.crawl.cookies is not None:
            await self.crawl.cookies.share()

    async def report_lost(self, dead: list[Lost]) -> None:
        # Repeated if Redis is away: rows come last, once.
        await self.crawl.politeness.lost(dead)
        await self._process.output.lost(dead)

    def update_holds(self, held_ms: dict[str, int]) -> None:
        self.crawl.politeness.holds.update(held_ms)

    def scope_names(self, seed: Push) -> set[str]:
        about = summarise(seed.host, seed.entry)
        rules = self.crawl.plan.rules
        return rules.scope_names(normalise(about.url), redirected=about.redirected)

    def awaits_seeds(self) -> bool:
        if not self._process.frontier.plan.has_page_budget:
            return False
        begins_with_some = getattr(self._process.spider, "starts_with_seeds", False)
        has_own = begins_with_some and self._process.engine.is_starting
        return has_own or self.crawl.entrance.intake.seeds_wait

    def about(self) -> dict[str, Any]:
        return self.crawl.about_worker()
