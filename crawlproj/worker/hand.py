"""The leases in a worker's hand: those that wait to be begun, and the names of all that it has.

A lease has a name, its shard and its token, by which a reply that comes twice, or late, is known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

from crawlproj.frontier.messages import Lease, Settlement

Name = tuple[int, int]


class Hand:
    """First come, first begun."""

    def __init__(self) -> None:
        self.waiting: deque[Lease] = deque()
        self.names: set[Name] = set()
        """Of those that wait, and of those that are begun and not settled."""

    def adopt(self, leases: Iterable[Lease]) -> bool:
        """Take up those that are not in hand yet; False if all of them are."""
        new = [one for one in leases if (one.shard, one.token) not in self.names]
        self.names.update((one.shard, one.token) for one in new)
        self.waiting.extend(new)
        return bool(new)

    def empty(self) -> list[Lease]:
        """All that wait; they do not any more."""
        leases, self.waiting = list(self.waiting), deque()
        return leases

    def settled(self, verdicts: Iterable[tuple[int, Settlement]]) -> None:
        """These have ended."""
        self.names.difference_update((shard, one.token) for shard, one in verdicts)

    def lose(self, names: Collection[Name]) -> int:
        """Others have these; returns how many of them were waiting."""
        lost = [one for one in self.waiting if (one.shard, one.token) in names]
        if lost:
            self.waiting = deque(one for one in self.waiting if one not in lost)
            self.names.difference_update((one.shard, one.token) for one in lost)
        return len(lost)
