"""What a worker owes the frontier: links that it found, and pages that have ended.

A page may be settled once the links that it led to are in the frontier. Which page a link comes
from is not known, for a spider yields Requests as it likes. So a page answers for every link that
was found between its beginning and its end, also for one that had been waiting here before.

Links have positions, in the order in which they came and go. Pure: nothing here knows Redis.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, replace
from itertools import islice
from typing import Generic, NamedTuple, Protocol, TypeVar

from crawlproj.frontier.messages import Push, Settlement


class Begun(Protocol):
    """A page, with what `Outbox.links_found` was when it began."""

    links_found_before: int


Page = TypeVar("Page", bound=Begun)


@dataclass(slots=True)
class Ended(Generic[Page]):
    """A page that waits to be settled, until links up to the position `needs` have gone and the
    store has committed what has the position `row` there."""

    page: Page
    needs: int
    settlement: tuple[int, Settlement] | None = None
    """With the shard of its lease, once it is judged."""
    judged_at_s: float = 0.0
    row: int = 0
    is_kept: bool = False


class Outbox(Generic[Page]):
    """Links and ended pages, each until it has gone to the frontier."""

    def __init__(self) -> None:
        self.ended: list[Ended[Page]] = []
        self._links: deque[Push] = deque()
        self._gone = 0
        self._positions: dict[str, int] = {}
        self._urgent = 0
        self.links_found = 0
        """How often a link was found so far, a new one or one that waits here; a page notes it when
        it begins."""
        # Pairs of links_found and position; positions fall, because a later find at a higher
        # position replaces earlier ones.
        self._farthest: list[tuple[int, int]] = []

    def __len__(self) -> int:
        """Links that wait."""
        return len(self._links)

    @property
    def is_urgent(self) -> bool:
        """True while something waits without which pages in hand cannot go on."""
        return self._urgent > self._gone

    def add(self, link: Push, *, once: bool, urgent: bool = False) -> bool:
        """Collect a link; False if it is to come but once and waits already."""
        if once and self.find_again(link.key):
            return False
        self._links.append(link)
        position = self._gone + len(self._links)
        if once:
            self._positions[link.key] = position
        if urgent:
            self._urgent = position
        self._count_found(position)
        return True

    def find_again(self, key: str) -> bool:
        """A link of this key has been found: True if it waits already. Pages that are under way
        wait for it then."""
        position = self._positions.get(key)
        if position is None:
            return False
        self._count_found(position)
        return True

    def end(self, page: Page) -> None:
        """A page has ended."""
        first = bisect_left(self._farthest, (page.links_found_before,))
        needs = self._farthest[first][1] if first < len(self._farthest) else 0
        self.ended.append(Ended(page, needs))

    def first(self, most: int) -> list[Push]:
        """The links that have waited longest."""
        return list(islice(self._links, most))

    def gone(self, count: int) -> None:
        """So many of the first links are in the frontier."""
        for _ in range(count):
            self._gone += 1
            key = self._links.popleft().key
            if self._positions.get(key) == self._gone:
                del self._positions[key]
        if not self._links:
            self._farthest.clear()

    def take_settled(self, among: int, committed: int = 0) -> list[Ended[Page]]:
        """The pages, among so many that ended first, whose links have gone and whose rows are
        committed; they are no longer here then."""
        first, rest = self.ended[:among], self.ended[among:]
        ready = [one for one in first if one.needs <= self._gone and one.row <= committed]
        waiting = [one for one in first if one.needs > self._gone or one.row > committed]
        self.ended = waiting + rest
        return ready

    def _count_found(self, position: int) -> None:
        while self._farthest and self._farthest[-1][1] <= position:
            self._farthest.pop()
        self._farthest.append((self.links_found, position))
        self.links_found += 1


class Settled(NamedTuple):
    """Leases that have ended here, and those of them that were still this worker's to settle."""

    ended: list[tuple[int, Settlement]]
    accepted: list[tuple[int, Settlement]]


def settlements(pages: list[Ended[Page]]) -> list[tuple[int, Settlement]]:
    """How pages that were judged are settled now. The pause of a host runs from the end of its
    request: the time that has passed since they were judged is added."""
    now_s = time.monotonic()
    found = []
    for one in pages:
        assert one.settlement is not None
        shard, settlement = one.settlement
        waited_ms = int((now_s - one.judged_at_s) * 1000)
        ago_ms = settlement.ended_ago_ms + waited_ms
        found.append((shard, replace(settlement, ended_ago_ms=ago_ms)))
    return found
