"""Where one URL or host stands in a shard, read as it lies there, for those who only look.

Nothing here is asked for by a crawl at work: each look may go through a whole queue.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from crawlproj.frontier import keys
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.wire import unpack, unpack_all

AT_ONCE = 1000


async def host_record(shard: Shard, host: str) -> bytes | None:
    """What is kept of a host, for hosts.py to read."""
    record: bytes | None = await shard.client.hget(keys.hosts(shard.crawl, shard.number), host)
    return record


async def waits_until_ms(shard: Shard, host_or_group: str) -> float:
    """When it may be contacted, by the crawl's clock; 0 if it does not wait."""
    key = keys.waiting(shard.crawl, shard.number)
    return float(await shard.client.zscore(key, host_or_group) or 0)


async def queued(shard: Shard, host: str, level: float) -> AsyncIterator[bytes]:
    """The entries of a host at one level, the next first."""
    key = keys.queue(shard.crawl, shard.number, level, host)
    async for entry in _list(shard.client, key):
        yield entry


async def delayed(shard: Shard) -> AsyncIterator[tuple[str, bytes, float]]:
    """Host, entry and due time of all that is to be tried again; damaged records are left out."""
    key = keys.delayed(shard.crawl, shard.number)
    async for packed, due_ms in shard.client.zscan_iter(key, count=AT_ONCE):
        with suppress(ValueError, TypeError, AttributeError):
            host, _, entry, _ = unpack_all(packed)
            yield host.decode(), entry, due_ms


async def set_aside(shard: Shard, host: str, pattern: str) -> AsyncIterator[bytes]:
    """The entries that are set aside with a pattern of a host; damaged records are left out."""
    key = keys.set_aside(shard.crawl, shard.number, host, pattern)
    async for packed in _list(shard.client, key):
        with suppress(ValueError, TypeError):
            _, _, entry, _ = unpack(packed)
            yield entry


async def workers(shard: Shard) -> list[str]:
    """The marked names of all that have told the shard of themselves and not left."""
    found = await shard.client.zrange(keys.workers(shard.crawl, shard.number), 0, -1)
    return [name.decode() for name in found]


async def is_seen(shard: Shard, key: str) -> bool:
    """Whether the seen filter has it, asked of Redis and not of this process's copy."""
    shard.replica.grow(len(await shard.layer_items()))
    prefix = keys.seen_prefix(shard.crawl, shard.number)
    for layer, offsets in enumerate(shard.replica.offsets(key)):
        bits = [await shard.client.getbit(f"{prefix}{layer}", offset) for offset in offsets]
        if all(bits):
            return True
    return False


async def is_sampled(shard: Shard, key: str) -> bool:
    """Whether it is among the URLs that are kept exactly, beside the filter."""
    return bool(await shard.client.sismember(keys.audit(shard.crawl, shard.number), key))


async def _list(client: Any, key: str) -> AsyncIterator[bytes]:
    start = 0
    while piece := await client.lrange(key, start, start + AT_ONCE - 1):
        for entry in piece:
            yield entry
        start += len(piece)
