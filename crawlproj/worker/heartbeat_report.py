"""What a worker has done so far, and what it tells about itself with each heartbeat.

Counted is what was settled, as the frontier counts it: pages, the bytes of their bodies, URLs given
up. The rows of stats and the summary of the crawl therefore say the same.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from crawlproj.engine.memory_limit import resident_bytes
from crawlproj.running import Tally
from crawlproj.worker.recent import Recent

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector

    from crawlproj.frontier.frontier import Frontier
    from crawlproj.worker.prefetch import Prefetch

SHORTEST_S = 1.0
"""Heartbeats may follow each other at once: what was done in between says nothing about a rate."""


class HeartbeatReport:
    """Tells of this process: who it is, what it has done, how fast it is and how large."""

    def __init__(
        self, tally: Tally, timeout_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tally = tally
        self.recent = Recent()
        self.is_draining = False
        """Whether it was asked to leave, and has not yet."""
        self._timeout_ms = round(timeout_s * 1000)
        self._clock = clock
        self._measured_at, self._measured_pages, self._pages_per_s = clock(), 0, 0.0

    def fields(self, links_without_room: int) -> dict[str, Any]:
        """For the frontier, where everybody can read it (operate/status.py)."""
        self._measure()
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "pages": self._tally.pages,
            "pages_per_s": round(self._pages_per_s, 2),
            "memory": resident_bytes(),
            "waiting": links_without_room,
            "timeout_ms": self._timeout_ms,
            "recent": self.recent.fields(),
            "draining": self.is_draining,
        }

    def _measure(self) -> None:
        now = self._clock()
        if now - self._measured_at >= SHORTEST_S:
            self._pages_per_s = (self._tally.pages - self._measured_pages) / (
                now - self._measured_at
            )
            self._measured_at, self._measured_pages = now, self._tally.pages


def count_exchange(stats: StatsCollector, frontier: Frontier, prefetch: Prefetch) -> None:
    """What the exchange with the frontier has cost so far, in Scrapy's stats."""
    for name in ("calls", "bytes_sent", "bytes_received"):
        stats.set_value(f"frontier/{name}", sum(getattr(one, name) for one in frontier.shards))
    stats.set_value("frontier/waited_s", round(prefetch.waited_s, 3))
    stats.set_value("frontier/prefetch", prefetch.depth)
