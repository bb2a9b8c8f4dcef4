"""Crawls on one Redis that keep one pace at a host: who has a turn there, and who is next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis import Redis

from crawlproj.frontier import keys
from crawlproj.frontier.messages import Lease, Settlement
from crawlproj.frontier.shared_pace import SharedPace, Turn
from crawlproj.server.connection import connect
from crawlproj.worker.exchange import Worker
from tests.contract.mortal import Judged
from tests.contract.shared_crawl import HOSTS, SharedCrawl, done, web
from tests.servers.frontier import push_all
from tests.servers.redis import RedisServer

HOST = HOSTS[0]
PAUSE_MS = 60_000
"""Longer than any of these tests: nothing is due by itself."""


class Crawl:
    """One that asks for turns, and tells whether it has them."""

    def __init__(self, client: object, name: str, pause_ms: int = PAUSE_MS) -> None:
        self.pace = SharedPace(client, name, "w")
        self.pause_ms = pause_ms
        self.tokens = 0

    async def take(self, host: str = HOST, connections: int = 1) -> int:
        """How many ms to wait; 0: it has a turn, the last of its tokens."""
        self.tokens += 1
        lease = Lease(0, self.tokens, host, 0, b"")
        waits = await self.pace.take([Turn(lease, host, self.pause_ms, connections)])
        return waits.get((0, self.tokens), 0)

    async def end(self, ago_ms: int = 0, **how: object) -> None:
        given = {"pause_ms": self.pause_ms, "ended_ago_ms": ago_ms, **how}
        await self.pace.end([(0, Settlement(self.tokens, "done", **given))])  # type: ignore[arg-type]


@pytest.fixture
async def client(redis_server: RedisServer, redis: Redis) -> AsyncIterator[object]:
    connected = await connect(redis_server.url)
    yield connected
    await connected.aclose()


async def test_a_host_that_one_crawl_asks_has_no_turn_for_another(client: object) -> None:
    docs, blog = Crawl(client, "docs"), Crawl(client, "blog")
    assert await docs.take() == 0
    assert 0 < await blog.take() <= PAUSE_MS
    assert await blog.take(HOSTS[1]) == 0


async def test_it_rests_after_the_request_of_one_for_all(client: object) -> None:
    docs, blog = Crawl(client, "docs"), Crawl(client, "blog")
    await docs.take()
    await docs.end(ago_ms=PAUSE_MS - 10_000)
    assert 9_000 < await blog.take() <= 10_000


async def test_the_longer_of_two_pauses_counts(client: object) -> None:
    hasty, slow = Crawl(client, "hasty", pause_ms=1), Crawl(client, "slow")
    await hasty.take()
    await hasty.end(ago_ms=10_000)
    assert 49_000 < await slow.take() <= 50_000


async def test_who_was_refused_is_next(client: object) -> None:
    docs, blog = Crawl(client, "docs"), Crawl(client, "blog")
    await docs.take()
    await docs.end(ago_ms=PAUSE_MS - 200)
    assert 0 < await blog.take() <= 200
    await docs.take("http://elsewhere")
    while wait_ms := await docs.take():  # who is next has half a second to come, and does
        assert wait_ms <= 500
        if await blog.take() == 0:
            break
    assert blog.pace.names and len(docs.pace.names) == 1


async def test_a_lease_that_goes_back_unfetched_leaves_no_pause(client: object) -> None:
    docs, blog = Crawl(client, "docs"), Crawl(client, "blog")
    await docs.take()
    await docs.pace.end([(0, Settlement(docs.tokens, "return", hold_ms=PAUSE_MS))])
    assert await blog.take() == 0


async def test_a_host_that_asks_one_crawl_for_rest_is_left_alone_by_all(client: object) -> None:
    docs, blog = Crawl(client, "docs", 1), Crawl(client, "blog", 1)
    await docs.take(connections=4)
    await docs.end(ago_ms=10, hold_ms=PAUSE_MS)
    assert 59_000 < await blog.take(connections=4) <= PAUSE_MS


async def test_connections_are_counted_over_all_crawls(client: object) -> None:
    docs, blog = Crawl(client, "docs"), Crawl(client, "blog")
    assert [await one.take(connections=2) for one in (docs, blog)] == [0, 0]
    assert await docs.take(connections=2) > 0


async def test_a_turn_that_is_renewed_stays_one_turn_and_its_key_expires(
    client: object, redis: Redis
) -> None:
    docs = Crawl(client, "docs")
    await docs.take()
    await docs.pace.renew(30_000)
    key = keys.shared_pace(0, HOST)
    assert (redis.hlen(key), redis.pttl(key) > 30_000) == (1, True)


async def test_a_lease_whose_host_another_crawl_asks_goes_back_and_its_host_waits(
    crawl: SharedCrawl,
) -> None:
    """On one shard, on three, on a Redis Cluster."""
    frontier = await crawl.join("w", shared_pace=True)
    other = Crawl(frontier.client, "other", 1)
    taken, free = HOSTS[:4], HOSTS[4:]
    assert [await other.take(host) for host in taken] == [0] * len(taken)
    await push_all(frontier, web(1))
    leases = (await frontier.lease(100)).leases
    assert sorted(lease.host for lease in leases) == sorted(free)
    counts = await frontier.counts()
    assert (counts["queued"], counts["leased"]) == (len(taken), len(free))
    assert sorted(host for state in crawl.states() for host, _ in state.waiting) == sorted(taken)
    assert all([await other.take(host) > 0 for host in free])
    await done(frontier, leases)
    assert [await other.take(host) for host in free] == [0] * len(free)


async def test_a_crawl_with_fewer_connections_than_another_has_its_turn(client: object) -> None:
    """Who is next is waited for until no more are used than it would have itself."""
    wide, narrow = Crawl(client, "wide", 1), Crawl(client, "narrow", 1)
    assert [await wide.take(connections=4) for _ in range(4)] == [0] * 4
    assert await narrow.take() > 0
    ended = [(0, Settlement(token, "done")) for token in range(1, 5)]
    await wide.pace.end(ended[:3])
    assert await wide.take(connections=4) > 0
    assert await narrow.take() > 0
    await wide.pace.end(ended[3:])
    assert await narrow.take() == 0


async def test_a_rest_does_not_last_longer_because_the_clock_was_set_back(
    client: object, redis: Redis
) -> None:
    docs = Crawl(client, "docs", pause_ms=50)
    in_an_hour_ms = 1000 * (int(redis.time()[0]) + 3600)
    redis.hset(keys.shared_pace(0, HOST), "old w 0 1", f"{in_an_hour_ms} 50")
    assert await docs.take() > 0
    await asyncio.sleep(0.06)
    assert await docs.take() == 0


async def test_what_nobody_of_ours_has_written_there_is_no_obstacle(
    client: object, redis: Redis
) -> None:
    docs = Crawl(client, "docs")
    strange = {"hold": "soon", "next": "me", "turn": "none", "": ""}
    redis.hset(keys.shared_pace(0, HOST), mapping=strange)
    assert await docs.take() == 0
    await docs.end(hold_ms=PAUSE_MS)
    assert await docs.take() > 0


async def test_a_turn_that_another_crawl_has_taken_over_is_not_begun_with(
    crawl: SharedCrawl,
) -> None:
    """A worker was stopped for so long that its turns were over. What it has begun stays its own:
    its request was broken off, or has ended."""
    frontier = await crawl.join("w", shared_pace=True)
    await push_all(frontier, web(1))
    worker = Worker(frontier, Judged(), connections=20, lease_timeout_s=60)
    await frontier.renew(20, {})
    await worker.lease(20)
    begun = worker.take()
    assert begun is not None and worker.leases == len(HOSTS)
    await asyncio.sleep(0.05)
    other = Crawl(frontier.client, "other", 1)
    assert [await other.take(host) for host in HOSTS] == [0] * len(HOSTS)
    await worker.beat()
    assert worker.leased_ahead == 0
    assert [lease.token for lease in await frontier.held_leases()] == [begun.token]
    assert (await frontier.counts())["queued"] == len(HOSTS) - 1
