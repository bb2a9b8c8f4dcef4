"""Deletes queued URLs that a user no longer wants, in pieces that block nobody for long.

A queue is read from its front and judged here; a script deletes what is not wanted and sends the
rest to the queue's end (lua/drop_queued.lua). After one round all have been seen, and none was
passed over, whatever workers lease or push meanwhile. What is leased stays leased.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.hosts import levels_of
from crawlproj.frontier.levels import is_robots_txt
from crawlproj.frontier.records import summarise
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.wire import pack, unpack_all

AT_ONCE = 500
"""Entries of one script call, and hosts that are looked at together."""

Doomed: TypeAlias = Callable[[str], bool]
"""Whether a URL is to be deleted."""


class Queue(NamedTuple):
    """One queue of a host: URLs of one level."""

    shard: Shard
    host: str
    level: float

    @property
    def key(self) -> str:
        return keys.queue(self.shard.crawl, self.shard.number, self.level, self.host)

    async def front(self, start: int = 0) -> list[bytes]:
        found = await self.shard.client.lrange(self.key, start, start + AT_ONCE - 1)
        return list(found)

    def doomed(self, entries: Sequence[bytes], is_doomed: Doomed) -> list[bytes]:
        return [entry for entry in entries if is_doomed(summarise(self.host, entry).url)]

    async def drop(self, entries: Sequence[bytes], doomed: Sequence[bytes]) -> tuple[int, int]:
        args = [self.host, self.level, pack(list(entries)), pack(list(doomed))]
        seen, gone = await self.shard.call("drop_queued", args)
        return int(seen), int(gone)

    async def drop_all(self) -> int:
        _, gone = await self.shard.call("drop_queued", [self.host, self.level, b"", b""])
        return int(gone)


async def drop(
    frontier: Frontier, host: str | None, is_doomed: Doomed | None
) -> AsyncIterator[int]:
    """Delete what is queued or delayed of a host, or of all, that is doomed, or all of it; tells
    piece by piece how many that were."""
    for shard in frontier.shards if host is None else [frontier.shard_of(host)]:
        async for queues in _queues(shard, host):
            for queue in queues:
                if is_doomed is None and not (frontier.plan.novelty or frontier.plan.outcomes):
                    yield await queue.drop_all()
                    continue
                async for gone in _drop_some(queue, is_doomed or _any):
                    yield gone
        async for gone in _drop_delayed(shard, host, is_doomed or _any):
            yield gone


def _any(_: str) -> bool:
    return True


async def _queues(shard: Shard, host: str | None) -> AsyncIterator[list[Queue]]:
    """All queues of pages, those of some hosts at a time."""
    key = keys.hosts(shard.crawl, shard.number)
    if host is not None:
        packed = await shard.client.hget(key, host)
        yield _queues_of(shard, host, packed) if packed else []
        return
    queues: list[Queue] = []
    async for name, packed in shard.client.hscan_iter(key, count=AT_ONCE):
        queues += _queues_of(shard, name.decode(errors="replace"), packed)
        if len(queues) >= AT_ONCE:
            yield queues
            queues = []
    yield queues


def _queues_of(shard: Shard, host: str, packed: bytes) -> list[Queue]:
    levels = [level for level in levels_of(packed) if not is_robots_txt(level)]
    return [Queue(shard, host, level) for level in levels]


async def _drop_some(queue: Queue, is_doomed: Doomed) -> AsyncIterator[int]:
    """One round through a queue that has any of them: a look does not move it."""
    if not await _has_any(queue, is_doomed):
        return
    left = int(await queue.shard.client.llen(queue.key))
    while left > 0 and (entries := (await queue.front())[:left]):
        seen, gone = await queue.drop(entries, queue.doomed(entries, is_doomed))
        left -= seen
        yield gone


async def _has_any(queue: Queue, is_doomed: Doomed) -> bool:
    start = 0
    while entries := await queue.front(start):
        if queue.doomed(entries, is_doomed):
            return True
        start += len(entries)
    return False


async def _drop_delayed(shard: Shard, host: str | None, is_doomed: Doomed) -> AsyncIterator[int]:
    doomed: list[bytes] = []
    scan = shard.client.zscan_iter(keys.delayed(shard.crawl, shard.number), count=AT_ONCE)
    async for packed, _ in scan:
        if _is_member_doomed(packed, host, is_doomed):
            doomed.append(packed)
    for start in range(0, len(doomed), AT_ONCE):
        yield int(await shard.call("drop_delayed", [pack(doomed[start : start + AT_ONCE])]))


def _is_member_doomed(packed: bytes, host: str | None, is_doomed: Doomed) -> bool:
    try:
        name, level, entry, *_ = unpack_all(packed)
        found: Any = name.decode()
    except (ValueError, TypeError, AttributeError):
        return False  # the scripts set it aside
    if (host is not None and found != host) or is_robots_txt(level):
        return False
    return is_doomed(summarise(found, entry).url)
