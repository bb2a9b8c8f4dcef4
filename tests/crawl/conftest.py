"""What every crawl of a test may ask for: workers that share an empty Redis.

Crawls of the demo web ask for `web`, of which the file says `SPEC`.

A file whose crawls need another Redis or another project folder says so by a `redis_server`,
`redis_url` or `project` of its own; the fleet is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlproj.demo import DemoServer
from tests.servers.fleet import DEMO_WEB, PROJECT, Fleet
from tests.servers.redis import RedisServer


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """What the workers are told of their Redis."""
    return redis_server.url


@pytest.fixture
def project() -> Path:
    """The folder that the workers start in."""
    return PROJECT


@pytest.fixture
def fleet(
    request: pytest.FixtureRequest, tmp_path: Path, redis_url: str, project: Path
) -> Iterator[Fleet]:
    """Real workers, gone at the end."""
    settings = DEMO_WEB if request.node.get_closest_marker("demo_web") else {}
    with Fleet(tmp_path, redis_url, project, settings) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def module_fleet(
    tmp_path_factory: pytest.TempPathFactory, redis_process: RedisServer
) -> Iterator[Fleet]:
    """Workers for the one crawl that all tests of a file look at."""
    redis_process.start()
    with redis_process.client() as client:
        client.flushall()
    with Fleet(tmp_path_factory.mktemp("crawl"), redis_process.url) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def web(request: pytest.FixtureRequest) -> Iterator[DemoServer]:
    """The demo web that the file's SPEC describes, served for all of its tests."""
    with DemoServer(request.module.SPEC) as server:
        yield server
