"""What several shards are asked side by side, and what they have answered, as one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeVar

from crawlproj.frontier.messages import Batch, Reclaimed, Renewed, State

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
    )


def reclaimed(parts: Sequence[Reclaimed]) -> Reclaimed:
    """All that was queued again; a worker is dead on several shards at once."""
    return Reclaimed(
        max(part.workers for part in parts),
        sum(part.queued for part in parts),
        [lost for part in parts for lost in part.dead],
    )


def _most_severe(states: set[State]) -> State:
    """The state that workers obey when shards differ for a moment. The end of the crawl, or of its
    page budget, counts only once every shard has reached it."""
    for state in ("stopped", "stopping", "paused"):
        if state in states:
            return state
    return "running"
