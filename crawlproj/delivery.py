"""What a worker hands in, in this order: the links that it found, the rows, the ended pages.

When Redis has no room for links, they and the pages that led to them wait here, while pages
without new links are settled all the same: that is what makes room. A page that waits keeps its
lease and lets its host go.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from redis.exceptions import OutOfMemoryError

from crawlproj import failpoints
from crawlproj.frontier.messages import Kind, Push, Settlement
from crawlproj.frontier.refusals import CrawlFinished
from crawlproj.frontier.scoring import HIGHEST
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.together import all_of
from crawlproj.outbox import Ended, Outbox
from crawlproj.pressure import Pressure
from crawlproj.wording import counted

if TYPE_CHECKING:
    from crawlproj.frontier.frontier import Frontier
    from crawlproj.worker import Hooks

logger = logging.getLogger(__name__)

T = TypeVar("T")
Part: TypeAlias = tuple[Shard, list[Push], int]
"""One script call: its shard, its URLs, and the known links that it counts."""

PUSH_AT_ONCE = 500
"""URLs in one script call: Redis does nothing else meanwhile."""

LEAST_AT_ONCE = 50
"""URLs in a call that is not made smaller, however little room there is."""

PATIENCE_S = 2.0
"""How long links wait for pages to make room before some of them are pushed above the watermark:
a worker that can settle nothing has nothing to wait for."""


class Insist(Protocol):
    """Does an operation, however long Redis is away."""

    def __call__(self, operation: Callable[[], Awaitable[T]], /) -> Awaitable[T]: ...


class Delivery:
    """The way from a worker to the frontier. One `run` at a time."""

    def __init__(
        self, frontier: Frontier, hooks: Hooks, insist: Insist, *, backlog: int, watermark: float
    ) -> None:
        self._frontier = frontier
        self._hooks = hooks
        self._insist = insist
        self._backlog = backlog
        self.outbox = Outbox()
        self.pressure = Pressure(frontier.client, watermark)
        self.scope: set[str] = set()
        self.seen_locally = 0
        self._parts: list[deque[Part]] = []
        self._batch_size = 0
        self._moved_at = time.monotonic()

    def add(self, item: Push, *, once: bool) -> bool:
        """Collect a URL; False if it waits already."""
        # A page in hand waits for its host's robots.txt: without it nothing moves.
        urgent = item.kind == Kind.UNFILTERED and item.level > HIGHEST
        return self.outbox.add(item, once=once, urgent=urgent)

    @property
    def is_full(self) -> bool:
        """True when so much waits that no more pages should be begun."""
        return len(self.outbox) + len(self.outbox.ended) >= self._backlog

    @property
    def links_without_room(self) -> int:
        """Links that wait because Redis is short of memory."""
        return len(self.outbox) if self.pressure.is_tight else 0

    async def run(
        self, *, is_last: bool, in_any_case: bool = False
    ) -> list[tuple[int, Settlement]]:
        """Push what has room (or all that Redis takes), write rows, settle; returns the settled.

        `is_last` says that nothing more is under way: known links are counted along with the next
        new ones as long as there will be some.
        """
        await self._push_waiting(is_last, in_any_case)
        settled = await self._settle_ended()
        self.pressure.tell(len(self.outbox), self._must_go_on())
        return settled

    async def push_now(self, pushes: list[Push]) -> None:
        """Push seeds; raises what the frontier, or a Redis without room, says against them."""
        await self._widen_scope(pushes)
        await self._push_parts(self._cut(pushes, 0))

    # Links

    async def _push_waiting(self, is_last: bool, in_any_case: bool) -> None:
        """Push what waits now: what comes meanwhile goes the next time, or pages would never be
        settled while links keep coming."""
        waiting = len(self.outbox)
        try:
            while waiting > 0 or self._parts or (is_last and self.seen_locally):
                await self._insist(self.pressure.look)
                if self.pressure.is_tight and not (in_any_case or self._must_go_on()):
                    return
                await self._push_some()
                waiting -= self._batch_size
                self._moved_at = time.monotonic()
        except OutOfMemoryError:
            self.pressure.refused()
            self._halve()

    def _must_go_on(self) -> bool:
        waited_s = time.monotonic() - self._moved_at
        return self.is_full or self.outbox.is_urgent or waited_s >= PATIENCE_S

    async def _push_some(self) -> None:
        """One batch. What Redis refuses of it comes first the next time: nothing goes twice."""
        if not self._parts:
            batch = self.outbox.first(PUSH_AT_ONCE * len(self._frontier.shards))
            await self._widen_scope(batch)
            seen_locally, self.seen_locally = self.seen_locally, 0
            self._parts = self._cut(batch, seen_locally)
            self._batch_size = len(batch)
        try:
            await self._push_parts(self._parts)
        except CrawlFinished:
            await self._come_late()
        self._parts = []
        self.outbox.gone(self._batch_size)

    async def _come_late(self) -> None:
        """Seeds that come just when others have ended the crawl open it again."""
        late = [item for parts in self._parts for _, items, _ in parts for item in items]
        if any(item.kind == Kind.SEED for item in late):
            logger.info("Opening the crawl again: %s came as it ended", counted(len(late), "seed"))
            await self._insist(self._frontier.reopen)
            await self._push_parts(self._parts)
        else:
            logger.warning("%s came after the crawl had finished", counted(len(late), "URL"))

    async def _push_parts(self, parts: list[deque[Part]]) -> None:
        """Shards are served side by side; what one of them has taken is gone from `parts`."""
        await all_of(map(self._serve, parts))

    async def _serve(self, parts: deque[Part]) -> None:
        while parts:
            await self._push(*parts[0])
            parts.popleft()
            failpoints.reached("pushed")

    def _halve(self) -> None:
        """What was refused at once may go piece by piece."""
        for parts in self._parts:
            if parts and len(items := parts[0][1]) > LEAST_AT_ONCE:
                shard, _, seen_locally = parts.popleft()
                half = len(items) // 2
                parts.extendleft([(shard, items[half:], 0), (shard, items[:half], seen_locally)])

    async def _push(self, shard: Shard, items: list[Push], seen_locally: int) -> None:
        """Push until it is kept: what a failover took back goes again."""
        push = partial(shard.push, self._frontier.worker, items, seen_locally)
        await self._insist(push)
        self.pressure.accepted()
        while not await self._insist(partial(self._frontier.keeps, shard)):
            lost = counted(len(items), "URL")
            logger.warning("A failover has lost %s: pushing again", lost)
            await self._insist(push)

    def _cut(self, pushes: list[Push], seen_locally: int) -> list[deque[Part]]:
        """Script calls, by shard; the first of them counts the known links."""
        groups = self._frontier.by_shard(pushes) or {0: []}
        cut: list[deque[Part]] = []
        for number, items in groups.items():
            shard, starts = (
                self._frontier.shards[number],
                range(0, max(1, len(items)), PUSH_AT_ONCE),
            )
            cut.append(deque((shard, items[start : start + PUSH_AT_ONCE], 0) for start in starts))
        shard, items, _ = cut[0].popleft()
        cut[0].appendleft((shard, items, seen_locally))
        return cut

    async def _widen_scope(self, pushes: list[Push]) -> None:
        """A seed's links are judged by what seeds brought into scope: that comes first."""
        seeds = [self._hooks.scope_names(one) for one in pushes if one.kind == Kind.SEED]
        new = set().union(*seeds) - self.scope
        if new:
            await self._insist(partial(self._frontier.widen_scope, new))
            self.scope |= new

    # Pages

    async def _settle_ended(self) -> list[tuple[int, Settlement]]:
        settled = [await self._verdict(one) for one in self.outbox.take_settled()]
        if settled:
            await self._write_rows()
            failpoints.reached("written")
            failpoints.reached("settle")
            await self._insist(partial(self._frontier.settle, settled))
            self._moved_at = time.monotonic()
        if self.pressure.is_tight:
            await self._keep([one for one in self.outbox.ended if one.verdict is None])
        return settled

    async def _verdict(self, ended: Ended) -> tuple[int, Settlement]:
        return ended.verdict or await self._hooks.verdict(ended.what)

    async def _keep(self, waiting: list[Ended]) -> None:
        """Let the hosts of pages go on whose links have no room yet."""
        if not waiting:
            return
        for one in waiting:
            one.verdict = await self._hooks.verdict(one.what)
        kept = [
            (n, replace(s, verdict="keep")) for n, s in filter(None, (w.verdict for w in waiting))
        ]
        await self._insist(partial(self._frontier.settle, kept))

    async def _write_rows(self) -> None:
        while True:
            try:
                return self._hooks.flush_rows()
            except OSError as error:
                logger.error("Rows cannot be written (%s); waiting, nothing is settled", error)
                await asyncio.sleep(2)
