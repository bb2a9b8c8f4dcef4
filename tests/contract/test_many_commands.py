"""A worker may want more of Redis at a moment than it has connections: then it waits."""

from __future__ import annotations

import asyncio

from crawlproj.server import connection
from tests.servers.redis import RedisServer


async def test_a_thousand_robots_files_at_once_are_all_stored(redis_server: RedisServer) -> None:
    client = await connection.connect(redis_server.url)
    await asyncio.gather(*(client.set(f"robots:{number}", b"x") for number in range(1000)))
    assert await client.dbsize() == 1000
    await client.aclose()
