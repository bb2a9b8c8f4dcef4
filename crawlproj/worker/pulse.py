"""What a worker has done so far, and what it tells about itself with each heartbeat.

Counted is what was settled, as the frontier counts it: pages, the bytes of their bodies, URLs given
up. The rows of stats and the summary of the crawl therefore say the same.
"""

from __future__ import annotations

import os
import resource
import socket
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawlproj.frontier.messages import Settlement

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector

    from crawlproj.frontier.frontier import Frontier
    from crawlproj.worker.prefetch import Supply

SHORTEST_S = 1.0
"""Heartbeats may follow each other at once: what was done in between says nothing about a rate."""

_STATM = Path("/proc/self/statm")


@dataclass
class Tally:
    """What this worker has settled."""

    pages: int = 0
    bytes: int = 0
    dead: int = 0

    def add(self, settled: Iterable[tuple[int, Settlement]]) -> None:
        """Count leases that have ended."""
        for _, one in settled:
            self.bytes += one.size
            if one.verdict == "done":
                self.pages += 1
            elif one.verdict == "dead":
                self.dead += 1


class Pulse:
    """Tells of this process: who it is, what it has done, how fast it is and how large."""

    def __init__(
        self, tally: Tally, timeout_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tally = tally
        self._timeout_ms = round(timeout_s * 1000)
        self._clock = clock
        self._told_at, self._told_pages, self._pages_per_s = clock(), 0, 0.0

    def told(self, links_without_room: int) -> dict[str, Any]:
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
        }

    def _measure(self) -> None:
        now = self._clock()
        if now - self._told_at >= SHORTEST_S:
            self._pages_per_s = (self._tally.pages - self._told_pages) / (now - self._told_at)
            self._told_at, self._told_pages = now, self._tally.pages


def count_exchange(stats: StatsCollector, frontier: Frontier, supply: Supply) -> None:
    """What the exchange with the frontier has cost so far, in Scrapy's stats."""
    for name in ("calls", "bytes_sent", "bytes_received"):
        stats.set_value(f"frontier/{name}", sum(getattr(one, name) for one in frontier.shards))
    stats.set_value("frontier/waited_s", round(supply.waited_s, 3))
    stats.set_value("frontier/prefetch", supply.depth)


def resident_bytes() -> int:
    """Memory in use now; where the system does not tell, the most there has been."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
