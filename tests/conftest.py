"""What every test may ask for: a clean Redis, a clean Redis Cluster.

The processes live as long as the pytest worker; each test gets them empty.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis import Redis

from tests.servers.redis import RedisCluster, RedisServer


@pytest.fixture(scope="session")
def redis_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="session")
def cluster_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    with RedisCluster(tmp_path_factory.mktemp("cluster"), masters=3) as cluster:
        yield cluster


@pytest.fixture
def redis_server(redis_process: RedisServer) -> RedisServer:
    """A running, empty Redis. A test that changes its configuration starts one of its own."""
    redis_process.start()
    with redis_process.client() as client:
        client.flushall()
    return redis_process


@pytest.fixture
def redis(redis_server: RedisServer) -> Iterator[Redis]:
    """A blocking client of `redis_server`, to look at keys from outside."""
    with redis_server.client() as client:
        yield client


@pytest.fixture
def redis_cluster(cluster_processes: RedisCluster) -> RedisCluster:
    """An empty cluster of three masters."""
    cluster_processes.flush()
    return cluster_processes
