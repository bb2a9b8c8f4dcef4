"""A URL pattern that one worker has set aside, as the others see it, over a real Redis."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from redis import Redis

from crawlproj.config.choices import ALIKE
from crawlproj.discover import quarantine
from crawlproj.discover.patterns import Evidence
from crawlproj.discover.quarantine import Quarantine
from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Kind, Push
from crawlproj.frontier.outcomes import SetAside
from crawlproj.frontier.pattern_store import set_aside_link
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.wire import pack
from crawlproj.operate import pattern_release, status
from crawlproj.server.connection import connect
from crawlproj.urls import Url
from tests.servers.frontier import push_all
from tests.servers.redis import RedisServer

HOSTS = [f"http://h{number}" for number in range(6)]
FORM = "/p/#"


def page(host: str, number: int) -> Url:
    return Url(host, f"/p/{number}")


async def set_aside(frontier: Frontier, url: Url, found: SetAside) -> None:
    """As discovery.py does it."""
    link = Push(Kind.LINK, url.host, 0, b"\0\1" + url.path.encode(), str(url))
    await push_all(frontier, [set_aside_link(link, found.pattern, found.why, f"pattern {url}")])


def evidence() -> Evidence:
    return Evidence(ALIKE, 2, 0)


@asynccontextmanager
async def two_workers(url: str) -> AsyncIterator[list[Frontier]]:
    frontiers = []
    for name in ("one", "other"):
        frontier = Frontier(await connect(url), "c", name)
        await frontier.open(Plan(shards=3), "run")
        frontiers.append(frontier)
    try:
        yield frontiers
    finally:
        for frontier in frontiers:
            await frontier.client.aclose()


async def test_what_one_worker_has_set_aside_the_others_leave_alone_until_it_is_released(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "MOST_OF_TIME", math.inf)
    async with two_workers(redis_server.url) as (mine, theirs):
        one, other = Quarantine(mine, evidence(), 0), Quarantine(theirs, evidence(), 0)
        for host in HOSTS:
            for number in range(3):
                one.weigh(page(host, number), b"same", False)
            found = one.outcome_for(page(host, 9))
            assert found == SetAside(FORM, quarantine.REPEATED)
            assert other.outcome_for(page(host, 9)) is None
            await set_aside(mine, page(host, 9), found)
        await other.refresh()
        assert {other.outcome_for(page(host, 4)) for host in HOSTS} == {SetAside(FORM, "repeated")}
        assert other.outcome_for(Url(HOSTS[0], "/q/4")) is None

        held = await pattern_release.find(mine)
        assert [pattern_release.name(one) for one in held] == [host + FORM for host in HOSTS]
        assert await pattern_release.release(mine, held[:5]) == 5
        for worker in (one, other):
            await worker.refresh()
            assert [bool(worker.outcome_for(page(host, 4))) for host in HOSTS] == [False] * 5 + [
                True
            ]
        for number in range(3):
            one.weigh(page(HOSTS[0], number), b"same", False)
        assert one.outcome_for(page(HOSTS[0], 9)) is None
        counts = await mine.counts()
        assert (counts["queued"], counts["filtered:pattern"]) == (5, 1)


@pytest.mark.parametrize(("most_of_time", "is_known"), [(1e-9, False), (math.inf, True)])
async def test_what_takes_long_to_read_is_not_read_at_every_change(
    redis_server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
    most_of_time: float,
    is_known: bool,
) -> None:
    monkeypatch.setattr(quarantine, "MOST_OF_TIME", most_of_time)
    async with two_workers(redis_server.url) as (mine, theirs):
        worker, found = Quarantine(theirs, evidence(), 0), SetAside(FORM, quarantine.REPEATED)
        for host in HOSTS[:2]:
            await set_aside(mine, page(host, 9), found)
            await worker.refresh()
        held = [worker.outcome_for(page(host, 4)) for host in HOSTS[:2]]
        assert held == [found, found if is_known else None]


async def test_a_host_has_a_bounded_number_of_patterns(redis_server: RedisServer) -> None:
    async with two_workers(redis_server.url) as (mine, _):
        worker = Quarantine(mine, evidence())
        names = [f"{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(150)]
        for name in names:
            for number in range(3):
                worker.weigh(Url(HOSTS[0], f"/{name}/{number}"), b"same", False)
        held = [bool(worker.outcome_for(Url(HOSTS[0], f"/{name}/7"))) for name in names]
        assert sum(held) == quarantine.MOST_OF_A_HOST
        assert worker.outcome_for(Url(HOSTS[1], "/aa/7")) is None


async def test_a_worker_forgets_its_oldest_verdict_that_redis_has_not_confirmed(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "MOST_OWN", 2)

    async with two_workers(redis_server.url) as (mine, _):
        worker = Quarantine(mine, evidence(), 0)

        def confine(host: str) -> SetAside:
            for number in range(3):
                worker.weigh(page(host, number), b"same", False)
            found = worker.outcome_for(page(host, 9))
            assert found is not None
            return found

        for host in HOSTS[:2]:
            await set_aside(mine, page(host, 9), confine(host))
        await worker.refresh()
        for host in HOSTS[2:]:
            confine(host)
        held = [bool(worker.outcome_for(page(host, 9))) for host in HOSTS]
        assert held == [True, True, False, False, True, True]


async def test_a_worker_asks_all_shards_at_once(
    redis_server: RedisServer, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "MOST_OF_TIME", math.inf)

    def reads() -> int:
        return int(redis.info("stats")["total_reads_processed"])

    async with two_workers(redis_server.url) as (mine, theirs):
        worker = Quarantine(theirs, evidence(), 0)
        for host in HOSTS:
            await set_aside(mine, page(host, 9), SetAside(FORM, quarantine.REPEATED))
        round_trips = []
        for _ in range(2):
            before = reads()
            await worker.refresh()
            round_trips.append(reads() - before - 1)  # but for that of asking
        assert all(worker.outcome_for(page(host, 4)) for host in HOSTS)
        assert round_trips == [2, 1]


async def test_many_patterns_cost_who_looks_at_them_few_round_trips_and_who_does_not_none(
    redis_server: RedisServer, redis: Redis
) -> None:
    def calls(name: str) -> int:
        return int(redis.info("commandstats").get(f"cmdstat_{name}", {}).get("calls", 0))

    def reads() -> int:
        return int(redis.info("stats")["total_reads_processed"])

    async with two_workers(redis_server.url) as (mine, _):
        for shard in range(3):
            some = {f"http://h{n} {FORM}": pack(["repeated", n, 0, n]) for n in range(500)}
            redis.hset(keys.patterns("c", shard), mapping=some)
        redis.rpush(keys.set_aside("c", 1, "http://h7", FORM), b"x", b"y")
        redis.config_resetstat()
        assert (await status.read(mine)).patterns == ()
        assert calls("llen") == 0
        before = reads()
        rows = (await status.read(mine, in_detail=True)).patterns
        assert reads() - before < 200
        assert calls("llen") == len(rows) == 1500
        assert [row.urls for row in rows[:3]] == [499, 499, 499]
        assert [row.pattern for row in rows if row.kept == 2] == [f"http://h7{FORM}"]
