"""Whether the frontier keeps a worker supplied, and how far ahead it has to lease for that.

A worker that has no URL in hand while hosts are due, and nothing else to do, waits for Redis, and
that is time lost: it is measured here, and the buffer is made deeper until it does not run dry.
A deeper buffer than needed is no gift either: what waits in it, no other worker can take. Knows
neither Scrapy nor Redis.
"""

from __future__ import annotations

DEEPEST = 4
"""Times the usual depth."""
SHRINK = 0.95
"""What is left of an extra depth that was not needed, after each lease."""


class Supply:
    """One worker's buffer: how deep it should be, and how long it stood empty for no good reason.
    Moments are of one clock, in seconds; `busy_s` is the processor's time that the worker has had
    by then, for one that is at work does not wait."""

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
        self, got: int, wanted: int, next_due_ms: int, now: float, busy_s: float = 0.0
    ) -> None:
        """The frontier has answered: with so many, the next host being due in so long, or -1."""
        if got and self._missed_at is not None:
            empty_s = now - max(self._missed_at, self._due_at)
            self.waited_s += max(0.0, empty_s - (busy_s - self._busy_s))
            if empty_s > 0 and got >= wanted:
                # Where hosts allow no more at a time, it would only take them from others.
                self._depth = min(self._depth * 2, self._usual * DEEPEST)
            self._missed_at = None
        elif got:
            self._depth = max(self._usual, self._depth * SHRINK)
        # Where there was less than was asked for, all that was due is taken.
        if got >= wanted:
            self._due_at = now
        else:
            self._due_at = now + next_due_ms / 1000 if next_due_ms >= 0 else float("inf")

    def released(self, due_at: float) -> None:
        """A page has been settled, so that its host is due again at that time."""
        self._due_at = min(self._due_at, due_at)
