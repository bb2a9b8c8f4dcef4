"""How far ahead a worker leases, so that it never waits for Redis.

A worker without a leased URL loses time if hosts are due and it has nothing else to do. That time
is measured here, and the buffer is made deeper until it does not run empty. A buffer deeper than
needed costs too: no other worker can take what waits in it. Knows neither Scrapy nor Redis.
"""

from __future__ import annotations

DEEPEST = 4
"""Times the usual depth."""
SHRINK = 0.95
"""What is left of an extra depth that was not needed, after each lease."""


class Prefetch:
    """How deep one worker's buffer should be, and how long it was empty without need. Times are of
    one clock, in seconds; `busy_s` is the processor time that the worker has used by then, because
    a worker that is busy does not wait."""

    def __init__(self, usual: int) -> None:
        self._usual = usual
        self._depth: float = usual
        self._missed_at: float | None = None
        self._busy_s = 0.0
        self._due_at = 0.0
        self.waited_s = 0.0

    @property
    def depth(self) -> int:
        """URLs to have in hand."""
        return round(self._depth)

    def missed(self, now: float, busy_s: float = 0.0) -> None:
        """The engine wanted a URL and there was none."""
        if self._missed_at is None:
            self._missed_at, self._busy_s = now, busy_s

    def leased(
        self, got: int, wanted: int, next_due_ms: int | None, now: float, busy_s: float = 0.0
    ) -> None:
        """The frontier has answered: with so many, and when the next host is due, if one is."""
        if got and self._missed_at is not None:
            empty_s = now - max(self._missed_at, self._due_at)
            self.waited_s += max(0.0, empty_s - (busy_s - self._busy_s))
            if empty_s > 0 and got >= wanted:
                # Only if as many came as were asked for: where hosts allow no more, a deeper buffer
                # would only take them from other workers.
                self._depth = min(self._depth * 2, self._usual * DEEPEST)
            self._missed_at = None
        elif got:
            self._depth = max(self._usual, self._depth * SHRINK)
        # If fewer came than were asked for, everything that was due has been taken.
        if got >= wanted:
            self._due_at = now
        else:
            self._due_at = float("inf") if next_due_ms is None else now + next_due_ms / 1000

    def released(self, due_at: float) -> None:
        """A page has been settled, so that its host is due again at that time."""
        self._due_at = min(self._due_at, due_at)
