"""Bytes that need not be transferred, since pages have not changed: a count beside the ledger."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from crawlproj.frontier import keys

if TYPE_CHECKING:
    from crawlproj.frontier.frontier import Frontier

SAVED = "saved_bytes"
"""The field of COUNTS, on the first shard."""

TELL_EVERY_S = 5.0


class SavedBytes:
    """What one worker has saved and not yet told the crawl."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._untold = 0
        self._told_at_s = time.monotonic()

    def add(self, count: int) -> None:
        """So many more."""
        self._untold += count

    async def tell(self, *, now: bool = False) -> None:
        """Let the crawl know of them, every few seconds. What it could not be told is told the
        next time."""
        is_due = now or time.monotonic() - self._told_at_s >= TELL_EVERY_S
        if not (self._untold and is_due):
            return
        told, self._untold = self._untold, 0
        counts = keys.counts(self._frontier.crawl, 0)
        try:
            await self._frontier.client.hincrby(counts, SAVED, told)
        except BaseException:
            self._untold += told
            raise
        self._told_at_s = time.monotonic()
