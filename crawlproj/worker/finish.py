"""When a crawl is over: decided by a worker that has nothing in hand, for all of them."""

from __future__ import annotations

import logging
import time

from crawlproj.discover.seeds import SeedList, SeedListError
from crawlproj.frontier.ending import UNSETTLED
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.limits import UNLIMITED
from crawlproj.frontier.messages import State
from crawlproj.worker.idle import Idle

logger = logging.getLogger(__name__)

PAGE_LIMIT = "page_limit"


class Ending:
    """Watches for the end. `stay` waits for more seeds for ever, `idle_s` for a while."""

    def __init__(
        self, frontier: Frontier, seeds: SeedList, idle: Idle, *, stay: bool, idle_s: float
    ) -> None:
        self._frontier = frontier
        self._seeds = seeds
        self._idle = idle
        self._stay = stay
        self._idle_s = idle_s
        self._idle_since: float | None = None
        self._has_said = False

    def busy(self) -> None:
        """There is something to do: what was idle time is over."""
        self._idle_since = None
        self._idle.busy()
        self._has_said = False

    def _say_waiting(self) -> None:
        """Once, each time that everything has been done."""
        if self._stay and not self._has_said:
            self._has_said = True
            crawl, key = self._frontier.crawl, self._seeds.key
            logger.info(
                "Nothing is left to do; waiting for more seeds at %s (scrapy seed %s URL adds "
                "some, scrapy stop %s ends the crawl)",
                *(key, crawl, crawl),
            )

    async def look(self, state: State) -> State:
        """The crawl's state, after ending it if nothing is left to do anywhere."""
        if await self._seeds_wait():
            return state
        counts = await self._frontier.counts()
        discovered = counts.get("discovered", 0)
        # One shard may have used its share of the pages up while another has some to spare, and
        # then the crawl as a whole is not at its limit.
        rests = not counts.get("leased", 0)
        if rests and discovered:
            await self._spend_pages(counts.get("done", 0))
        if any(counts.get(name, 0) for name in UNSETTLED) and not (rests and state == "limit"):
            self.busy()
            return state
        # At a limit more would only be thrown away.
        if state == "running" and not self._idle.may_end(discovered):
            return state
        if self._stay or not (discovered or self._idle_s) or not self._has_waited():
            self._say_waiting()
            return state
        return await self._frontier.finish()

    async def _seeds_wait(self) -> bool:
        """What has another form than it should may be seeds all the same: the intake says so, and
        whoever pushed them can put it right."""
        try:
            return await self._seeds.size() > 0
        except SeedListError:
            return True

    async def _spend_pages(self, done: int) -> None:
        limit = self._frontier.limits.pages
        if limit != UNLIMITED and done >= limit:
            await self._frontier.drain(PAGE_LIMIT)
        else:
            await self._frontier.balance_pages()

    def _has_waited(self) -> bool:
        now = time.monotonic()
        if self._idle_since is None:
            self._idle_since = now
        return now - self._idle_since >= self._idle_s
