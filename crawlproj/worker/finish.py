"""Decides when a crawl is over, and what a worker does about the crawl's state. Any worker that has
nothing left to do decides it for all."""

from __future__ import annotations

import logging
import time

from crawlproj.discover.seeds import SeedList, SeedListError
from crawlproj.frontier.finishing import UNSETTLED
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import State
from crawlproj.plural import counted
from crawlproj.worker import join
from crawlproj.worker.exchange import Worker
from crawlproj.worker.idle import Idle
from crawlproj.worker.process import WorkerProcess

logger = logging.getLogger(__name__)

PAGE_LIMIT = "page_limit"


class StateHandler:
    """Goes by the crawl's state: goes on, gives back, ends the crawl, or closes the spider."""

    def __init__(self, process: WorkerProcess, worker: Worker, crawl_end: CrawlEnd) -> None:
        self._process = process
        self._worker = worker
        self._crawl_end = crawl_end
        self._obeyed: State = "running"

    async def obey(self, state: State) -> None:
        """The crawl is in this state, and the worker has leased nothing or may not go on."""
        self._say_if_paused(state)
        self._obeyed = state
        if state in ("running", "finished") and self._process.has_more():
            self._crawl_end.busy()
            return
        if state in ("running", "limit"):
            if not self._worker.is_idle:
                self._crawl_end.busy()
                return
            state = await self._crawl_end.end_if_done(state)
        elif state == "finished":
            state = await self._state_at_the_end()
        await self._act(state)

    async def _state_at_the_end(self) -> State:
        """Others have ended the crawl. What waits here, or has gone since, opens it again."""
        if self._worker.backlog:
            return "running"
        state = await self._process.frontier.state()
        return "running" if state == "finished" and not await self._may_end() else state

    async def _act(self, state: State) -> None:
        worker, engine, reason = self._worker, self._process.engine, self._process.idle.reason
        if state == "running" and self._process.has_more():  # handlers of spider_idle have added it
            worker.reopen_if_finished()
        elif state == "stopping":
            await worker.give_back()
            if worker.is_idle or worker.is_stuck:
                engine.close("stopped")
        elif state in ("finished", "stopped") or reason:
            engine.close(reason or state)

    async def _may_end(self) -> bool:
        counts = await self._process.frontier.counts()
        return self._process.idle.may_end(counts.get("discovered", 0))

    def _say_if_paused(self, state: State) -> None:
        if state == "paused" and self._obeyed != "paused":
            crawl = self._process.frontier.crawl
            logger.info("The crawl is paused: scrapy resume %s lets its workers go on", crawl)


def make_state_handler(process: WorkerProcess, worker: Worker, seeds: SeedList) -> StateHandler:
    """For one worker, which may have to wait for more seeds."""
    stay = process.frontier.plan.stay or join.waits_for_ever(process.spider)
    crawl_end = CrawlEnd(process.frontier, seeds, process.idle, stay=stay, idle_s=process.idle_s)
    return StateHandler(process, worker, crawl_end)


class CrawlEnd:
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
        self._has_said = self._has_said_resting = False

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
                key,
                crawl,
                crawl,
            )

    def _say_resting(self, pages: int) -> None:
        """Once: from now on there are revisits, and what these find."""
        if not self._has_said_resting:
            self._has_said_resting = True
            logger.info(
                "All that is known has been fetched: %s, until there is one to revisit (scrapy "
                "stop %s ends the crawl)",
                f"{counted(pages, 'page')} at rest",
                self._frontier.crawl,
            )

    async def end_if_done(self, state: State) -> State:
        """The crawl's state, after ending it if nothing is left to do anywhere."""
        if await self._seeds_wait():
            return state
        counts = await self._frontier.counts()
        discovered = counts.get("discovered", 0)
        # One shard may have used its share of the pages up while another has some to spare, and
        # then the crawl as a whole is not at its limit.
        rests = not counts.get("leased", 0)
        if rests and discovered:
            await self._spend_pages(counts.get("done", 0) + counts.get("revisits", 0))
        if any(counts.get(name, 0) for name in UNSETTLED) and not (rests and state == "limit"):
            self.busy()
            return state
        if state == "running" and counts.get("resting", 0):
            self._say_resting(counts["resting"])
            return state
        # At a limit nobody is asked for more: it would only be filtered.
        if state == "running" and not self._idle.may_end(discovered):
            return state
        if self._stay or not (discovered or self._idle_s) or not self._has_waited():
            self._say_waiting()
            return state
        return await self._frontier.finish()

    async def _seeds_wait(self) -> bool:
        """Whether seeds wait to be taken in. A key of another type than it should be counts as
        some: the intake says what is wrong, and whoever pushed them can put it right."""
        try:
            return await self._seeds.size() > 0
        except SeedListError:
            return True

    async def _spend_pages(self, done: int) -> None:
        limit = self._frontier.plan.pages
        if limit is not None and done >= limit:
            await self._frontier.filter_queued(PAGE_LIMIT)
        else:
            await self._frontier.balance_pages()

    def _has_waited(self) -> bool:
        now = time.monotonic()
        if self._idle_since is None:
            self._idle_since = now
        return now - self._idle_since >= self._idle_s
