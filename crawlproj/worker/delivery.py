"""Hands in what a worker has: the links that it found and the rows, side by side; then the pages
that have ended.

Where pages are kept in a store, one is settled when it is committed there, together with others.
When Redis has no room for links, they and the pages that led to them wait here. Pages without new
links are settled all the same, which makes room. A page that waits, for the store, for room or for
a slow disk, keeps its lease, and its host goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from redis.exceptions import OutOfMemoryError

from crawlproj import failpoints
from crawlproj.config import Config
from crawlproj.frontier.combined import all_of, take_outrun
from crawlproj.frontier.levels import is_robots_txt
from crawlproj.frontier.messages import Kind, Push
from crawlproj.frontier.outcomes import Attempt
from crawlproj.frontier.refusals import CrawlFinished
from crawlproj.frontier.shard import Shard
from crawlproj.plural import counted
from crawlproj.server.memory import Pressure
from crawlproj.worker.fresh_seeds import FreshSeeds
from crawlproj.worker.outages import RetryUntilAvailable
from crawlproj.worker.outbox import Ended, Outbox, Settled, settlements

if TYPE_CHECKING:
    from crawlproj.frontier.frontier import Frontier
    from crawlproj.worker.hooks import Hooks

logger = logging.getLogger(__name__)

MOST_WAITING, WATERMARK = Config.backlog, Config.watermark
"""Of a worker that is not told otherwise."""

PUSH_AT_ONCE = 500
"""URLs in one script call: Redis does nothing else meanwhile."""

LEAST_AT_ONCE = 50
"""URLs in a call that is not made smaller, however little room there is."""

PATIENCE_S = 2.0
"""How long links wait for pages to make room before some of them are pushed above the watermark:
a worker that can settle nothing has nothing to wait for."""

ROWS = "rows"
"""What the thread is called that writes them."""

DISK_S = 0.25
"""How long hosts wait for a disk, at most: their pages may have to wait longer."""


class PushCall(NamedTuple):
    """One script call: its shard, its URLs, and how many known links it counts."""

    shard: Shard
    items: list[Push]
    seen_locally: int


class Delivery:
    """The way from a worker to the frontier. One `run` at a time."""

    def __init__(
        self,
        frontier: Frontier,
        hooks: Hooks,
        retry_until_available: RetryUntilAvailable,
        *,
        most_waiting: int,
        watermark: float,
    ) -> None:
        self._frontier = frontier
        self._hooks = hooks
        self._retry_until_available = retry_until_available
        self._most_waiting = most_waiting
        self._store = hooks.store
        self.outbox: Outbox[Attempt] = Outbox()
        self.pressure = Pressure(frontier.client, watermark)
        self.scope: set[str] = set()
        self.seeds = FreshSeeds()
        self.seen_locally = 0
        self.reopens_crawl = False
        """True if what waits opens a crawl again that others have ended."""
        self._calls: list[deque[PushCall]] = []
        self._batch_size = 0
        self._moved_at = time.monotonic()
        # A thread of its own: in those of the event loop, rows would wait behind slow name servers.
        self._disk = ThreadPoolExecutor(1, ROWS)

    def close(self) -> None:
        """Nothing will be handed in any more."""
        self._disk.shutdown(wait=False)

    def add(self, item: Push, *, once: bool) -> None:
        """Collect a URL; one that is to come but once and waits already is a duplicate."""
        # A page that is leased waits for its host's robots.txt: without that nothing goes on.
        urgent = item.kind == Kind.UNFILTERED and is_robots_txt(item.level)
        self.seen_locally += not self.outbox.add(item, once=once, urgent=urgent)

    def count_if_waiting(self, key: str) -> bool:
        """True if a link of this key is collected already, which counts it as a duplicate."""
        is_known = self.outbox.find_again(key)
        self.seen_locally += is_known
        return is_known

    def count_seen(self, links: int) -> None:
        """So many links were recognised as known, without asking: they are duplicates."""
        self.seen_locally += links

    @property
    def links_found(self) -> int:
        """How many were found so far, as a page notes it when it begins."""
        return self.outbox.links_found

    def end(self, attempt: Attempt) -> None:
        """Collect a page that has ended."""
        self.outbox.end(attempt)
        if self._store is not None:
            self._store.expect(attempt)

    @property
    def waiting_links(self) -> int:
        """URLs that are not in the frontier yet."""
        return len(self.outbox)

    @property
    def ended_pages(self) -> int:
        """Pages that are not settled yet."""
        return len(self.outbox.ended)

    @property
    def owes(self) -> bool:
        """True while anything is still to be handed in."""
        return bool(self.outbox or self.outbox.ended)

    @property
    def is_full(self) -> bool:
        """True when so much waits that no more pages should be begun."""
        if self._store is not None and self._store.is_full:
            return True
        waiting = self.waiting_links + self.ended_pages
        return waiting >= self._most_waiting or self._hooks.is_behind()

    @property
    def awaits_commit(self) -> bool:
        """True while the store gathers pages that are not committed."""
        return self._store is not None and self._store.committed < self._store.added

    def commit_now(self) -> None:
        """Nothing more will come soon that the store could commit with what it has."""
        if self._store is not None:
            self._store.commit_now()

    @property
    def links_without_room(self) -> int:
        """Links that wait because Redis is short of memory."""
        return len(self.outbox) if self.pressure.is_tight else 0

    async def run(self, *, is_last: bool, in_any_case: bool = False) -> Settled:
        """Push what has room (or all that Redis takes) while rows are written, then settle.

        `is_last` says that nothing more is under way: known links are counted along with the next
        new ones as long as there will be some.
        """
        judged = await self._judge_ended()
        await self._share()
        # While links are pushed, which takes about as long, so that hosts wait for the longer
        # alone.
        writing = asyncio.create_task(self._write_rows(judged))
        try:
            await self._push_waiting(is_last, in_any_case)
            settled = await self._settle_ended(judged, writing)
        finally:
            writing.cancel()
        # Redis has refused what must be pushed anyway and still waits.
        self.pressure.log(len(self.outbox), is_stuck=self._must_push_anyway())
        return settled

    async def push_now(self, pushes: list[Push]) -> None:
        """Push seeds; raises what the frontier, or a Redis without room, says against them."""
        await self._widen_scope(pushes)  # all of them, also those that are not to be filtered
        await self._push_to_the_end(self._cut(pushes, 0))

    # Links

    async def _push_waiting(self, is_last: bool, in_any_case: bool) -> None:
        """Push what waits now: what comes meanwhile goes the next time, or pages would never be
        settled while links keep coming."""
        waiting = len(self.outbox)
        try:
            while waiting > 0 or self._calls or (is_last and self.seen_locally):
                await self._retry_until_available(self.pressure.look)
                if self.pressure.is_tight and not (in_any_case or self._must_push_anyway()):
                    return
                await self._push_some()
                waiting -= self._batch_size
                self._moved_at = time.monotonic()
        except OutOfMemoryError:
            self.pressure.refused()
            self._halve()

    def _must_push_anyway(self) -> bool:
        """Whether links cannot wait any longer for room below the watermark."""
        waited_s = time.monotonic() - self._moved_at
        return self.is_full or self.outbox.is_urgent or waited_s >= PATIENCE_S

    async def _push_some(self) -> None:
        """One batch. What Redis refuses of it comes first the next time: nothing goes twice."""
        if not self._calls:
            batch = self.outbox.first(PUSH_AT_ONCE * len(self._frontier.shards))
            await self._widen_scope(one for one in batch if one.kind == Kind.SEED)
            await self._share()
            seen_locally, self.seen_locally = self.seen_locally, 0
            self._calls = self._cut(batch, seen_locally)
            self._batch_size = len(batch)
        try:
            await self._push_to_the_end(self._calls)
        except CrawlFinished:
            await self._reopen_for_seed()
        self._calls = []
        self.outbox.gone(self._batch_size)
        self.reopens_crawl = self.reopens_crawl and bool(self.outbox)

    async def _reopen_for_seed(self) -> None:
        """A new seed that comes just when others have ended the crawl opens it again."""
        late = [item for calls in self._calls for call in calls for item in call.items]
        seeds = [item for item in late if item.kind == Kind.SEED]
        if self.reopens_crawl or await self._retry_until_available(
            partial(self._frontier.has_new, seeds)
        ):
            more = counted(len(seeds), "seed") if seeds else counted(len(late), "URL")
            logger.info("Opening the crawl again: %s came as it ended", more)
            await self._retry_until_available(self._frontier.reopen)
            await self._push_to_the_end(self._calls)
        elif len(late) > len(seeds):
            logger.warning("%s came after the crawl had finished", counted(len(late), "URL"))

    async def _push_to_the_end(self, calls: list[deque[PushCall]]) -> None:
        """Push all; raises CrawlFinished if the crawl has ended. A shard may have ended though the
        crawl has not: who was about to end it died, or will find that more has come."""
        while True:
            try:
                return await self._push_calls(calls)
            except CrawlFinished:
                if await self._retry_until_available(self._frontier.state) == "finished":
                    raise
                await self._retry_until_available(self._frontier.reopen)

    async def _push_calls(self, calls: list[deque[PushCall]]) -> None:
        """Shards are served side by side; what one of them has taken is gone from `calls`."""
        has_seeds = any(
            item.kind == Kind.SEED for shard in calls for call in shard for item in call.items
        )
        await all_of(map(self._serve, calls))
        if has_seeds:
            await self._retry_until_available(self._frontier.keep_pages_for_seeds)

    async def _serve(self, calls: deque[PushCall]) -> None:
        while calls:
            await self._push(calls[0])
            calls.popleft()
            failpoints.reached("pushed")

    def _halve(self) -> None:
        """What was refused at once may go piece by piece."""
        for calls in self._calls:
            if calls and len(calls[0].items) > LEAST_AT_ONCE:
                call = calls.popleft()
                half = len(call.items) // 2
                calls.appendleft(PushCall(call.shard, call.items[half:], 0))
                calls.appendleft(PushCall(call.shard, call.items[:half], call.seen_locally))

    async def _push(self, call: PushCall) -> None:
        """Push until it is kept: what a failover took back goes again."""
        push = partial(call.shard.push, self._frontier.worker, call.items, call.seen_locally)
        await self._retry_until_available(push)
        self.pressure.accepted()
        while not await self._retry_until_available(
            partial(self._frontier.wait_for_replicas, call.shard)
        ):
            lost = counted(len(call.items), "URL")
            logger.warning("A failover has lost %s: pushing again", lost)
            await self._retry_until_available(push)
        self.seeds.note([item for item in call.items if item.kind == Kind.SEED])

    def _cut(self, pushes: list[Push], seen_locally: int) -> list[deque[PushCall]]:
        """Script calls, by shard; the first of them counts the known links."""
        groups = self._frontier.by_shard(pushes) or {0: []}
        cut: list[deque[PushCall]] = []
        for number, items in groups.items():
            shard = self._frontier.shards[number]
            starts = range(0, max(1, len(items)), PUSH_AT_ONCE)
            pieces = [items[start : start + PUSH_AT_ONCE] for start in starts]
            cut.append(deque(PushCall(shard, piece, 0) for piece in pieces))
        cut[0][0] = cut[0][0]._replace(seen_locally=seen_locally)
        return cut

    async def _share(self) -> None:
        await self._retry_until_available(self._hooks.share)

    async def _widen_scope(self, seeds: Iterable[Push]) -> None:
        """A seed's links are judged by what seeds brought into scope: that comes first."""
        new = set().union(*map(self._hooks.scope_names, seeds)) - self.scope
        if new:
            await self._retry_until_available(partial(self._frontier.widen_scope, new))
            self.scope |= new

    # Pages

    async def _judge_ended(self) -> int:
        """Say what becomes of each, which may add rows; returns how many there are."""
        for one in self.outbox.ended:
            await self._judge(one)
        return len(self.outbox.ended)

    async def _judge(self, ended: Ended[Attempt]) -> None:
        if ended.settlement is None:
            ended.settlement = await self._hooks.judge(ended.page)
            ended.judged_at_s = time.monotonic()
            if self._store is not None:
                ended.row = self._store.take(ended.page, ended.settlement[1])

    async def _settle_ended(self, judged: int, writing: asyncio.Task[None]) -> Settled:
        """Settle those of the judged whose links have gone and which the store has, once their rows
        are written."""
        ready = self.outbox.take_settled(judged, await self._keep_uncommitted())
        settled = Settled([], [])
        if ready:
            await self._wait_for_disk(writing, ready)
            failpoints.reached("written")
            failpoints.reached("settle")
            settled = await self._settle(ready)
            self._moved_at = time.monotonic()
        if self.pressure.is_tight:
            await self._keep(self.outbox.ended)
        return settled

    async def _settle(self, pages: list[Ended[Attempt]]) -> Settled:
        ended = settlements(pages)
        settling = self._frontier.settling(ended, self._hooks.new_items())
        late = await self._retry_until_available(settling)
        outrun = take_outrun(self._frontier.shards)
        if not (late or outrun):
            return Settled(ended, ended)
        held = {one.page.lease.name: one.page for one in pages}
        certain = [*(late - settling.doubtful), *outrun]
        refused = [(held[name], outrun.get(name)) for name in certain if name in held]
        await self._hooks.refused(refused)
        return Settled(ended, [one for one in ended if (one[0], one[1].token) not in late])

    async def _keep_uncommitted(self) -> int:
        """Let hosts go on while the store gathers their pages; returns how far it is."""
        if self._store is None:
            return 0
        committed = self._store.committed
        await self._keep([one for one in self.outbox.ended if one.row > committed])
        return committed

    async def _wait_for_disk(
        self, writing: asyncio.Task[None], pages: list[Ended[Attempt]]
    ) -> None:
        await asyncio.wait([writing], timeout=DISK_S)
        if not writing.done():
            await self._keep(pages)
        await writing

    async def _keep(self, waiting: list[Ended[Attempt]]) -> None:
        """Let the hosts of pages go on that cannot be settled yet."""
        new = [one for one in waiting if not one.is_kept]
        for one in new:
            await self._judge(one)
            one.is_kept = True
        if new:
            kept = [(shard, replace(one, verdict="keep")) for shard, one in settlements(new)]
            await self._retry_until_available(self._frontier.settling(kept))

    async def _write_rows(self, judged: int) -> None:
        """Have the rows of so many judged pages on disk. Pages that end meanwhile share the next
        writing: the slower a disk is, the less often it is asked."""
        loop = asyncio.get_running_loop()
        is_written = not judged
        while not is_written:
            try:
                await loop.run_in_executor(self._disk, self._hooks.flush_rows)
                is_written = True
            except OSError as error:
                logger.error("Rows cannot be written (%s); waiting, nothing is settled", error)
                await asyncio.sleep(2)
