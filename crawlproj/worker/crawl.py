"""A crawl that this worker has joined: its parts, how they begin and end, and what the exchange
with the frontier asks of them. They are put together in assembly.py."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from crawlproj.discover.quarantine import Quarantine
from crawlproj.discover.seeds import Intake
from crawlproj.errors import CrawlError
from crawlproj.frontier.messages import Lease, Push, Settlement, State
from crawlproj.frontier.outcomes import Held
from crawlproj.frontier.records import summarise
from crawlproj.plural import counted
from crawlproj.politeness.groups import AddressGroups
from crawlproj.running import RunningCrawl
from crawlproj.urls import normalise
from crawlproj.worker.admission import Admission
from crawlproj.worker.finish import Obedience
from crawlproj.worker.place import Place
from crawlproj.worker.plan_in_use import PlanInUse
from crawlproj.worker.pulse import Pulse, count_exchange
from crawlproj.worker.requests import Requests
from crawlproj.worker.surroundings import Surroundings

if TYPE_CHECKING:
    from crawlproj.worker.seen_filter import SeenFilter

logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Crawl(RunningCrawl):
    """Everything that works at it in this process, in the order of a URL's way."""

    place: Place
    plan: PlanInUse
    seen: SeenFilter
    intake: Intake
    requests: Requests
    quarantine: Quarantine
    groups: AddressGroups | None
    admission: Admission
    obedience: Obedience
    pulse: Pulse
    _taking_in: asyncio.Task[None] | None = field(default=None, init=False)

    async def start(self) -> None:
        """Begin to lease, and to take seeds in."""
        await self.worker.start()
        self._taking_in = asyncio.create_task(self.intake.run())

    async def close(self) -> None:
        """Hand everything in and take leave."""
        assert self._taking_in is not None
        self._taking_in.cancel()
        if self.groups:
            await self.groups.close()
        if self.permission is not None:
            await self.permission.close()
        try:
            await self._hand_in()
        except (CrawlError, RedisError) as error:
            logger.warning("This worker could not take its leave: %s", error)
        finally:
            await self.frontier.close()

    async def _hand_in(self) -> None:
        await self.worker.close()
        self.count_exchange()
        for handed_in in self.on_handed_in:
            await handed_in()
        if self.worker.state == "stopping":
            await self.frontier.finish()

    def count_exchange(self) -> None:
        """Have the stats say what the exchange with the frontier has cost so far."""
        stats = self.place.crawler.stats
        assert stats is not None
        count_exchange(stats, self.frontier, self.worker.supply)

    def change_plan(self, plan: dict[str, Any]) -> None:
        """Go by what has been changed of the plan while the crawl goes on."""
        if self.plan.change(plan):
            self.discovery.judge_by(self.plan.rules)


class InCrawl(Surroundings):
    """A worker's surroundings: the other parts of its crawl, and Scrapy."""

    crawl: Crawl
    """Set once all of it is there: the worker, which it is made of too, is given this first."""

    def __init__(self, place: Place) -> None:
        self._place = place

    async def verdict(self, ended: Held) -> tuple[int, Settlement]:
        settlement = self.crawl.plan.patience.settlement(ended)
        if settlement.verdict == "dead":
            await self._place.reports.dead(ended, settlement.reason)
        return ended.lease.shard, settlement

    def wake(self) -> None:
        self._place.engine.wake()

    def break_off(self) -> None:
        if broken_off := self._place.engine.cut():
            logger.warning(
                "%s broken off: Redis has been away for so long that others may soon take over "
                "what this worker holds",
                counted(broken_off, "request"),
            )

    def give_up(self, error: Exception) -> None:
        is_known = isinstance(error, CrawlError)
        logger.error("This worker stops: %s", error, exc_info=None if is_known else error)
        self._place.engine.close("failed")

    def flush_rows(self) -> None:
        self._place.reports.flush_rows()

    def new_items(self) -> dict[str, int]:
        return self._place.reports.new_items()

    async def obey(self, state: State) -> None:
        await self.crawl.obedience.obey(state)

    async def prepare(self, leases: list[Lease]) -> None:
        await self.crawl.quarantine.refresh()
        if self.crawl.permission is not None:
            await self.crawl.permission.learn(leases)
        if self.crawl.cookies is not None:
            await self.crawl.cookies.learn(leases)

    async def share(self) -> None:
        if self.crawl.cookies is not None:
            await self.crawl.cookies.share()

    async def report_lost(self, dead: list[tuple[str, float, bytes]]) -> None:
        await self._place.reports.lost(dead)
        if self.crawl.permission is not None:
            await self.crawl.permission.lost(dead)

    def heed_holds(self, held_ms: dict[str, int]) -> None:
        self.crawl.holds.hear(held_ms)

    def scope_names(self, seed: Push) -> set[str]:
        about = summarise(seed.host, seed.entry)
        rules = self.crawl.plan.rules
        return rules.scope_names(normalise(about.url), redirected=about.redirected)

    def awaits_seeds(self) -> bool:
        if not self._place.frontier.limits.has_page_budget:
            return False
        begins_with_some = getattr(self._place.spider, "starts_with_seeds", False)
        has_own = begins_with_some and self._place.engine.is_starting
        return has_own or self.crawl.intake.seeds_wait

    def about(self) -> dict[str, Any]:
        self.crawl.count_exchange()
        return self.crawl.pulse.told(self.crawl.worker.links_without_room)
