"""What every test may ask for: a clean Redis, a clean Redis Cluster, Scrapy without our parts.

The processes live as long as the pytest worker; each test gets them empty.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from redis import Redis

from crawlproj.config.environment import PLAIN_SCRAPY
from tests.servers import scrapy_process
from tests.servers.redis import RedisCluster, RedisServer

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what is to run in the background with SIGINT ignored. Processes that tests
    # start would inherit that, and those that are told to end by it never would.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure() -> None:
    """The first of the processes has the servers that the others ask for commands."""
    if scrapy_process.FOLDER not in os.environ:
        scrapy_process.listen_for_all()


def pytest_collectstart() -> None:
    gc.disable()  # until all tests are there: it would look at each of them again and again


def pytest_collection_finish() -> None:
    """Six thousand tests live as long as the process: the collector need not look at them again."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # DuckDB complains of what is still there at the end


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with the mark `also_plain` runs twice."""
    if metafunc.definition.get_closest_marker("also_plain") and PLAIN_SCRAPY not in os.environ:
        metafunc.fixturenames.append("scrapys_own_parts")
        metafunc.parametrize(
            "scrapys_own_parts", [False, True], indirect=True, ids=["ours", "plain"]
        )


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("needs_ours") and os.environ.get(PLAIN_SCRAPY):
        pytest.skip("Scrapy's own parts cannot do it")


@pytest.fixture
def scrapys_own_parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the processes of a test use Scrapy's own parts, as with a Scrapy that ours were not
    tested with."""
    if request.param:
        monkeypatch.setenv(PLAIN_SCRAPY, "1")


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
