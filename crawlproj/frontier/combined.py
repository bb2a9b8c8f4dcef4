"""What several shards are asked side by side, and what they have answered, as one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from crawlproj.frontier.messages import Batch, LeaseName, Reclaimed, Renewed, Settlement, State
from crawlproj.frontier.settling import settle

if TYPE_CHECKING:
    from crawlproj.frontier.shard import Shard

T = TypeVar("T")


async def all_of(calls: Iterable[Awaitable[T]]) -> list[T]:
    """The results of all calls; the first error is raised once none is under way any more."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    done: list[T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        done.append(result)
    return done


def batch(parts: Sequence[Batch]) -> Batch:
    """All leases, and when the first of the shards has more."""
    due = [part.next_due_ms for part in parts if part.next_due_ms is not None]
    states = {part.state for part in parts}
    return Batch(
        states.pop() if len(states) == 1 else _most_severe(states),
        min(due, default=None),
        max(part.scope_size for part in parts),
        [lease for part in parts for lease in part.leases],
        short_at=tuple(number for part in parts for number in part.short_at),
    )


def renewed(parts: Sequence[Renewed]) -> Renewed:
    """What the first shard says of the crawl; the worker is known if all of them know it."""
    return parts[0]._replace(
        known=all(part.known for part in parts),
        leases=sum(part.leases for part in parts),
        outrun=tuple(name for part in parts for name in part.outrun),
    )


def take_outrun(shards: Iterable[Shard]) -> dict[LeaseName, int]:
    """Leases that have settled a URL which another worker held too, since this was last asked; and
    the token of the other's."""
    found: dict[LeaseName, int] = {}
    for shard in shards:
        found |= {(shard.number, own): other for own, other in shard.outrun.items()}
        shard.outrun = {}
    return found


def reclaimed(parts: Sequence[Reclaimed]) -> Reclaimed:
    """All that was queued again; a worker is dead on several shards at once."""
    return Reclaimed(
        max(part.workers for part in parts),
        sum(part.queued for part in parts),
        [lost for part in parts for lost in part.dead],
    )


class Settling:
    """Leases that end together, on several shards. Called again after an outage, it goes on with
    the shards that have not answered, and repeats what one of them may have done."""

    def __init__(
        self,
        shards: Sequence[Shard],
        worker: str,
        batch: Iterable[tuple[int, Settlement]],
        new_items: Mapping[str, int] | None,
        when_settled: Callable[[list[tuple[int, Settlement]]], Awaitable[None]],
    ) -> None:
        self._shards = shards
        self._worker = worker
        self._batch = list(batch)
        self._new_items = new_items or {}
        self._when_settled = when_settled
        self._unanswered: dict[int, list[Settlement]] = {}
        for number, settlement in self._batch:
            self._unanswered.setdefault(number, []).append(settlement)
        # By shard, the number of the call that was made.
        self._asked: dict[int, int] = {}
        self._late: set[LeaseName] = set()
        self.doubtful: set[LeaseName] = set()
        """Those of them that may be settled: the shard has forgotten what it did."""

    async def __call__(self) -> set[LeaseName]:
        """Names of the leases that were no longer held."""
        for number, items in list(self._unanswered.items()):
            shard, is_repeated = self._shards[number], number in self._asked
            if not is_repeated:
                self._asked[number] = shard.number_settlement()
            call, new_items = self._asked[number], self._new_items
            answer = await settle(
                shard, self._worker, items, new_items, call=call, is_repeated=is_repeated
            )
            late = {(number, token) for token in answer.late}
            self._late |= late
            self.doubtful |= set() if answer.is_certain else late
            self._new_items = {}
            del self._unanswered[number]
        await self._when_settled(self._batch)
        return self._late


def _most_severe(states: set[State]) -> State:
    """The state that workers obey when shards differ for a moment. The end of the crawl, or of its
    page budget, counts only once every shard has reached it."""
    for state in ("stopped", "stopping", "paused"):
        if state in states:
            return state
    return "running"
