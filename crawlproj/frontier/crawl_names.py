"""The names of all crawls on a Redis, by the keys that each has: the frontier's own, or seeds that
wait. A large frontier has millions of keys, so they are looked through piece by piece."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from redis.asyncio import RedisCluster

from crawlproj.frontier import keys

AT_ONCE = 10_000
_ANY = "*"


async def at_once() -> None:
    """No rest between two calls."""


async def find(client: Any, turn: Callable[[], Awaitable[None]] = at_once) -> AsyncIterator[str]:
    """Each name, perhaps more than once; `turn` returns when the next call may be made."""
    for pattern in (keys.meta(_ANY, 0), keys.start_urls(_ANY)):
        before, after = pattern.split(_ANY)
        async for key in _matching(client, pattern, turn):
            yield key.decode(errors="replace").removeprefix(before).removesuffix(after)


async def _matching(
    client: Any, pattern: str, turn: Callable[[], Awaitable[None]]
) -> AsyncIterator[bytes]:
    if isinstance(client, RedisCluster):  # which has a cursor a node
        async for key in client.scan_iter(pattern, count=AT_ONCE):
            yield key
        return
    cursor = None
    while cursor != 0:
        await turn()
        cursor, some = await client.scan(cursor or 0, pattern, AT_ONCE)
        for key in some:
            yield key
