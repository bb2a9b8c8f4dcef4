"""What became of single URLs, after the fact: kept by the scripts that settle (lua/_outcomes.lua),
if the crawl was begun with FRONTIER_OUTCOMES, and read here by whoever asks for one."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import NamedTuple

from crawlproj.frontier import keys
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.wire import unpack_all, url_digest

NAMES = "names"


class OutcomeRecord(NamedTuple):
    """When a URL was done with, the status of its response or 0, who had it, and, if it was
    filtered, the reason."""

    at_ms: int
    status: int
    worker: str
    reason: str


async def read(shard: Shard, host: str, path: str) -> OutcomeRecord | None:
    """What is kept of a URL that was asked for by GET."""
    meta = await shard.meta()
    with suppress(ValueError, TypeError, struct.error):
        buckets = int(meta.get("outcomes", 0))
        if not buckets:
            return None
        number = url_number(host, path)
        key = f"{keys.outcomes_prefix(shard.crawl, shard.number)}{number % buckets}"
        field = struct.pack(">I", number // buckets % 2**32)
        packed = await shard.client.hget(key, field)
        if packed is not None:
            seconds, status, worker, *reason = unpack_all(packed)
            names = await _names(shard)
            at_ms = int(meta.get("started_ms", 0)) + int(seconds) * 1000
            told = names.get(reason[0], "") if reason else ""
            return OutcomeRecord(at_ms, int(status), names.get(worker, ""), told)
    return None


def url_number(host: str, path: str) -> int:
    """The number of a GET, as lua/_dead_letters.lua makes it: 52 bits, which Lua counts exactly."""
    return int(url_digest(host, path).hex()[:13], 16)


async def _names(shard: Shard) -> dict[int, str]:
    key = f"{keys.outcomes_prefix(shard.crawl, shard.number)}{NAMES}"
    found = await shard.client.hgetall(key)
    return {int(number): name.decode(errors="replace") for name, number in found.items()}
