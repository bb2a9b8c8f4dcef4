"""One crawl seen by several workers: on one shard, on three of one server, on a Redis Cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contract.shared_crawl import SharedCrawl
from tests.servers.redis import RedisCluster, RedisServer


@pytest.fixture(params=["one shard", "three shards", "cluster"])
async def crawl(request: pytest.FixtureRequest) -> AsyncIterator[SharedCrawl]:
    async for crawl in _checked(_server(request), 1 if request.param == "one shard" else 3):
        yield crawl


@pytest.fixture(params=["three shards", "cluster"])
async def sharded(request: pytest.FixtureRequest) -> AsyncIterator[SharedCrawl]:
    async for crawl in _checked(_server(request), 3):
        yield crawl


def _server(request: pytest.FixtureRequest) -> RedisServer | RedisCluster:
    name = "redis_cluster" if request.param == "cluster" else "redis_server"
    server: RedisServer | RedisCluster = request.getfixturevalue(name)
    return server


async def _checked(server: RedisServer | RedisCluster, shards: int) -> AsyncIterator[SharedCrawl]:
    client: Any
    with server.client() as client:
        async with SharedCrawl(server.url, client, shards) as crawl:
            yield crawl
            crawl.check()
