"""The leases of a worker: those that wait to be begun, the names of all that it has, and how many
it should have."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable

from crawlproj import failpoints
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Lease, LeaseName, Settlement
from crawlproj.plural import counted, plural
from crawlproj.worker.hooks import Hooks
from crawlproj.worker.prefetch import Prefetch

logger = logging.getLogger(__name__)


class LeaseBuffer:
    """First come, first begun."""

    def __init__(self, frontier: Frontier, hooks: Hooks, usual: int) -> None:
        self._frontier = frontier
        self._hooks = hooks
        self.prefetch = Prefetch(usual)
        self.waiting: deque[Lease] = deque()
        self.names: set[LeaseName] = set()
        """Of those that wait, and of those that are begun and not settled."""

    async def adopt(self, leases: list[Lease]) -> None:
        """Take up those that are not in hand yet: a reply may have been lost."""
        await self._hooks.prepare(leases)
        new = {name: one for one in leases if (name := one.name) not in self.names}
        self.names.update(new)
        self.waiting.extend(new.values())
        if new:
            self._hooks.wake()
        failpoints.reached("leased")

    async def sync(self) -> None:
        """Take over what Redis says is this worker's: others may have some of it by now, and the
        reply that brought some of it may have been lost."""
        before = set(self.names)
        held = {one.name: one for one in await self._frontier.held_leases()}
        begun = before - {one.name for one in self.waiting}
        unbegun = [one for name, one in held.items() if name not in begun]
        in_turn = await self._frontier.in_turn(unbegun)
        await self.adopt([one for one in in_turn if one.name not in before])
        mine = begun & held.keys() | {one.name for one in in_turn}
        if lost := self._lose(before - mine):
            what = f"{counted(lost, 'URL')} {plural(lost, 'is')}"
            logger.warning("%s no longer this worker's: others have them", what)

    def take_out(self, but: int = 0, shards: Collection[int] | None = None) -> list[Lease]:
        """All that wait but for the first ones, of all shards or some; they do not any more. The
        last comes first: so they go back to the front of their queues in the order in which they
        came."""
        rest = [self.waiting.pop() for _ in range(len(self.waiting) - but)]
        if shards is None:
            return rest
        self.waiting.extend(one for one in reversed(rest) if one.shard not in shards)
        return [one for one in rest if one.shard in shards]

    async def let_go(self, outrun: Collection[LeaseName]) -> None:
        """Return what waits of these: another worker has settled it."""
        unbegun = {one.name for one in self.waiting}
        needless = unbegun.intersection(outrun)
        if self._lose(needless):
            returned = [(shard, Settlement(token, "return")) for shard, token in needless]
            await self._frontier.settle(returned)

    def settled(self, ended: Iterable[tuple[int, Settlement]]) -> None:
        """These have ended."""
        self.names.difference_update((shard, one.token) for shard, one in ended)

    def _lose(self, names: Collection[LeaseName]) -> int:
        """Others have these; returns how many of them were waiting."""
        lost = [one for one in self.waiting if one.name in names]
        if lost:
            self.waiting = deque(one for one in self.waiting if one not in lost)
            self.names.difference_update(one.name for one in lost)
        return len(lost)
