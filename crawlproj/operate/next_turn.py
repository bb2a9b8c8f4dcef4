"""When a queued URL may be fetched: its host's next turn, and at the earliest its own."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from crawlproj.frontier import keys
from crawlproj.frontier.hosts import read_host
from crawlproj.frontier.shard import Shard
from crawlproj.output.summary import duration


class Turn(NamedTuple):
    """In seconds from now; None where it is not known."""

    host_s: float | None
    at_least_s: float | None

    def __str__(self) -> str:
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
        waits_until_ms = await shard.client.zscore(keys.waiting(shard.crawl, shard.number), name)
        host_s = max(0.0, (waits_until_ms or 0) - now_ms) / 1000
        pause_s = max(record.pause_ms or 0, float(meta.get("delay_ms", 0))) / 1000
        connections = max(1, record.per or int(meta.get("per_host", 1)))
        return Turn(round(host_s, 1), round(host_s + ahead * pause_s / connections, 1))
    return Turn(None, None)
