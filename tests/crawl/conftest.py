"""What every crawl of a test may ask for: workers that share an empty Redis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.fleet import Fleet, fleet
from tests.servers.redis import RedisServer


@pytest.fixture
def ships(tmp_path: Path, redis_server: RedisServer) -> Iterator[Fleet]:
    """Real workers, gone at the end; a test file whose crawls need more has its own."""
    with fleet(tmp_path, redis_server.url) as sailing:
        yield sailing
