"""What a worker owes the frontier: links that it found, and pages that have ended.

A page may be settled once the links that it led to are in the frontier. Which page a link comes
from is not known, for a spider yields Requests as it likes. So a page answers for every link that
was found between its beginning and its end, also for one that had been waiting here before.

Links have positions, in the order in which they came and go. Pure: nothing here knows Redis.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Any

from crawlproj.frontier.messages import Push, Settlement


@dataclass(slots=True)
class Ended:
    """A page that waits to be settled, until links up to the position `needs` have gone and the
    store has committed what has the position `row` there."""

    what: Any
    needs: int
    verdict: tuple[int, Settlement] | None = None
    judged_at_s: float = 0.0
    row: int = 0
    is_kept: bool = False


class Outbox:
    """Links and ended pages, each until it has gone to the frontier."""

    def __init__(self) -> None:
        self.ended: list[Ended] = []
        self._links: deque[Push] = deque()
        self._gone = 0
        self._positions: dict[str, int] = {}
        self._urgent = 0
        self._meetings = 0
        # Meeting and position, of those that no later meeting outdoes: positions fall.
        self._farthest: list[tuple[int, int]] = []

    def __len__(self) -> int:
        """Links that wait."""
        return len(self._links)

    @property
    def now(self) -> int:
        """The moment, as `end` is told when a page began."""
        return self._meetings

    @property
    def is_urgent(self) -> bool:
        """True while something waits without which pages in hand cannot go on."""
        return self._urgent > self._gone

    def add(self, link: Push, *, once: bool, urgent: bool = False) -> bool:
        """Collect a link; False if it is to come but once and waits already."""
        waits_at = self._positions.get(link.key) if once else None
        if waits_at is not None:
            self._meet(waits_at)
            return False
        self._links.append(link)
        position = self._gone + len(self._links)
        if once:
            self._positions[link.key] = position
        if urgent:
            self._urgent = position
        self._meet(position)
        return True

    def end(self, what: Any, since: int = 0) -> None:
        """A page that was begun at that moment has ended."""
        first = bisect_left(self._farthest, (since,))
        needs = self._farthest[first][1] if first < len(self._farthest) else 0
        self.ended.append(Ended(what, needs))

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

    def take_settled(self, among: int, committed: int = 0) -> list[Ended]:
        """The pages, among so many that ended first, whose links have gone and whose rows are
        committed; they are no longer here then."""
        first, rest = self.ended[:among], self.ended[among:]
        ready = [one for one in first if one.needs <= self._gone and one.row <= committed]
        waiting = [one for one in first if one.needs > self._gone or one.row > committed]
        self.ended = waiting + rest
        return ready

    def _meet(self, position: int) -> None:
        while self._farthest and self._farthest[-1][1] <= position:
            self._farthest.pop()
        self._farthest.append((self._meetings, position))
        self._meetings += 1
