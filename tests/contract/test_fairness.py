"""Nobody waits behind a slow host or a long queue.

Why that is so: hosts stand in line, not URLs. A host that is leased from leaves the line until its
request has ended and its pause has passed; so a slow one holds up nothing but itself, and one with
a long queue has one turn like everybody. A turn takes the front of a list, whatever its length.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis import Redis

from crawlproj.frontier.frontier import Frontier
from tests.contract.shared_crawl import SharedCrawl, done
from tests.lua.helpers import link, unfiltered
from tests.servers.frontier import push_all
from tests.servers.redis import RedisServer

SLOW, HUGE = "http://slow", "http://huge"
QUEUED = 100_000
NORMAL = [f"http://n{number}" for number in range(500)]
TURNS = 3


@pytest.fixture
async def crawl(redis_server: RedisServer, redis: Redis) -> AsyncIterator[SharedCrawl]:
    async with SharedCrawl(redis_server.url, redis, shards=1) as crawl:
        yield crawl


async def test_normal_hosts_have_every_turn_beside_a_slow_host_and_a_huge_one(
    crawl: SharedCrawl,
) -> None:
    frontier = await crawl.join("w")
    await push_all(frontier, [link(SLOW, f"/{number}") for number in range(TURNS + 1)])
    [never_ends] = (await frontier.lease(1)).leases
    await fill(frontier, QUEUED)
    for number in range(TURNS):
        await push_all(frontier, [link(host, f"/{number}") for host in NORMAL])
    for _ in range(TURNS):
        hosts = [host async for host in one_turn_each(frontier, 1 + len(NORMAL))]
        assert sorted(hosts) == sorted([HUGE, *NORMAL])
    assert never_ends.host == SLOW


async def test_a_turn_costs_as_much_however_many_urls_are_queued(crawl: SharedCrawl) -> None:
    frontier = await crawl.join("w")
    costs = []
    for queued in (100, QUEUED):
        await fill(frontier, queued)
        costs.append(min([await cost_of_a_turn(frontier, crawl.redis) for _ in range(10)]))
    assert costs[0] == costs[1]


async def cost_of_a_turn(frontier: Frontier, redis: Any) -> int:
    """In commands. Now and then a turn has one more, which keeps the crawl's clock."""
    before = commands(redis)
    await done(frontier, (await frontier.lease(1)).leases)
    return commands(redis) - before


async def fill(frontier: Frontier, queued: int) -> None:
    for start in range(0, queued, 5000):
        some = range(start, min(queued, start + 5000))
        await push_all(frontier, [unfiltered(HUGE, f"/{number}") for number in some])


async def one_turn_each(frontier: Frontier, hosts: int) -> Any:
    """So many leases, settled in batches as a worker does."""
    while hosts:
        leases = (await frontier.lease(min(hosts, 32))).leases
        assert leases
        hosts -= len(leases)
        await done(frontier, leases)
        for lease in leases:
            yield lease.host


def commands(redis: Any) -> int:
    """Commands that Redis has carried out, those of scripts included."""
    stats = redis.info("commandstats")
    return sum(found["calls"] for name, found in stats.items() if name != "cmdstat_info")
