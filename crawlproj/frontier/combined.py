"""What several shards have answered, as one answer. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from crawlproj.frontier.messages import Batch, Reclaimed, Renewed, State


def batch(parts: Sequence[Batch]) -> Batch:
    """All leases, and when the first of the shards has more."""
    due = [part.next_due_ms for part in parts if part.next_due_ms >= 0]
    states = {part.state for part in parts}
    return Batch(
        states.pop() if len(states) == 1 else _gravest(states),
        min(due, default=-1),
        max(part.scope_size for part in parts),
        [lease for part in parts for lease in part.leases],
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


def _gravest(states: set[State]) -> State:
    """The state to obey when shards differ for a moment; the end of the crawl or of its page
    budget counts only if all have come to it."""
    for state in ("stopped", "stopping", "paused"):
        if state in states:
            return state
    return "running"
