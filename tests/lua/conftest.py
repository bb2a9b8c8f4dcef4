"""A crawl on one shard of a real Redis, balanced whenever a test ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis import Redis

from tests.lua.helpers import HandCrawl, hand_crawl
from tests.servers.redis import RedisServer


@pytest.fixture
def crawl(redis_server: RedisServer, redis: Redis) -> Iterator[HandCrawl]:
    with hand_crawl(redis_server.url, redis) as crawl:
        yield crawl
        if crawl.opened is not None and redis.exists(crawl.key("meta")):
            crawl.state()
