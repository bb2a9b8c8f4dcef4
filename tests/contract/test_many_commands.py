"""A worker may want more of Redis at a moment than it has connections: then it waits."""

from __future__ import annotations

import asyncio

from crawlproj.server import connection
from tests.servers.redis import RedisServer


def test_a_thousand_robots_files_at_once_are_all_stored(redis_server: RedisServer) -> None:
    async def store() -> int:
        client = await connection.connect(redis_server.url)
        await asyncio.gather(*(client.set(f"robots:{number}", b"x") for number in range(1000)))
        stored: int = await client.dbsize()
        await client.aclose()
        return stored

    assert asyncio.run(store()) == 1000
