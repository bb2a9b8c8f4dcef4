"""Says in the log how far a worker is with learning what has been seen, where that takes long."""

from __future__ import annotations

import logging
import time

logger = logging.getLogger(__name__)

EVERY_S = 2.0


class Warming:
    """One warm-up of the replica of the seen filter."""

    def __init__(self) -> None:
        self._bytes = 0
        self._told_at = time.monotonic()

    def received(self, count: int) -> None:
        """So many bytes more of the filter have come."""
        self._bytes += count
        if time.monotonic() - self._told_at >= EVERY_S:
            self._told_at = time.monotonic()
            logger.info("Learning what has been seen: %.0f MB so far", self._bytes / 1e6)
