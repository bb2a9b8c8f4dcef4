"""Seeds that a worker has pushed so lately that Redis may not have them on disk yet.

A link that Redis loses with its last second is found again, because the page that led to it is then
not settled either. A seed has no such page: unless it came from the list of seeds, only its worker
knows of it. So the worker pushes it again when another server answers, or the same one after a
restart. Knows neither Redis nor what a seed is.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from crawlproj.frontier.messages import Push

SYNCED_S = 5.0
"""How old writes are that Redis has on disk for certain, with `appendfsync everysec`: a second, or
two if the disk is slow, and some to spare."""


class FreshSeeds:
    """Kept from their push until the server that has them has lived on for so long."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._pushed: deque[tuple[float, Sequence[Push]]] = deque()

    def note(self, seeds: Sequence[Push]) -> None:
        """Redis has taken these in."""
        if seeds:
            self._pushed.append((self._clock_s(), seeds))

    def confirm(self) -> None:
        """The server that has taken them in still answers."""
        while self._pushed and self._pushed[0][0] < self._clock_s() - SYNCED_S:
            self._pushed.popleft()

    def take_back(self) -> list[Push]:
        """All that may have been lost, to be pushed again."""
        seeds = [seed for _, some in self._pushed for seed in some]
        self._pushed.clear()
        return seeds
