"""When a queued URL may be fetched: its host's next turn, and at the earliest its own."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from crawlproj.frontier.hosts import read_host
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.whereabouts import waits_until_ms
from crawlproj.output.summary import duration

_AT_REST = {
    "paused": "the crawl is paused (scrapy resume)",
    "stopping": "the crawl is being stopped",
    "stopped": "the crawl is stopped, and goes on with the next worker",
}
"""Why nobody fetches it, whatever its host allows."""


class Turn(NamedTuple):
    """In seconds from now; None where it is not known."""

    host_s: float | None
    at_least_s: float | None
    state: str = "running"
    """Of the crawl: nothing has a turn while it is not running."""

    def __str__(self) -> str:
        if self.state in _AT_REST:
            return f"; {_AT_REST[self.state]}"
        if self.host_s is None or self.at_least_s is None:
            return ""
        host = f"in {duration(self.host_s)}" if self.host_s else "now, if a worker is free"
        return f"; its host may be asked {host}, it itself in {duration(self.at_least_s)} at least"

    @property
    def details(self) -> dict[str, Any]:
        return {"host_next_s": self.host_s, "at_least_s": self.at_least_s}


async def read(shard: Shard, host: str, packed: bytes, ahead: int) -> Turn:
    """Of a URL with so many of its host before it."""
    with suppress(ValueError, TypeError):
        record, meta = read_host(packed), await shard.meta()
        now_ms = await shard.now_ms()
        name = record.group or host
        host_s = max(0.0, await waits_until_ms(shard, name) - now_ms) / 1000
        pause_s = max(record.pause_ms or 0, float(meta.get("delay_ms", 0))) / 1000
        connections = max(1, record.connections or int(meta.get("per_host", 1)))
        at_least_s = host_s + ahead * pause_s / connections
        return Turn(round(host_s, 1), round(at_least_s, 1), meta.get("state", ""))
    return Turn(None, None)
