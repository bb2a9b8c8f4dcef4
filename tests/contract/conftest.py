"""One crawl seen by several workers: on one shard, on three of one server, on a Redis Cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.fleet import Fleet
from tests.servers.redis import RedisCluster, RedisServer


@pytest.fixture(params=["one shard", "three shards", "cluster"])
def fleet(request: pytest.FixtureRequest) -> Iterator[Fleet]:
    name = "redis_cluster" if request.param == "cluster" else "redis_server"
    yield from _fleet(request.getfixturevalue(name), 1 if request.param == "one shard" else 3)


@pytest.fixture(params=["three shards", "cluster"])
def sharded(request: pytest.FixtureRequest) -> Iterator[Fleet]:
    name = "redis_cluster" if request.param == "cluster" else "redis_server"
    yield from _fleet(request.getfixturevalue(name), 3)


def _fleet(server: RedisServer | RedisCluster, shards: int) -> Iterator[Fleet]:
    client: Any
    with asyncio.Runner() as runner, server.client() as client:
        fleet = Fleet(server.url, client, runner, shards)
        try:
            yield fleet
            fleet.check()
        finally:
            fleet.close()
