"""Whatever somebody else writes where a crawl keeps its state: one line says so, nothing explodes,
and it can be purged."""

from __future__ import annotations

import argparse
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgpack
import pytest
from redis import Redis
from scrapy import Request
from scrapy.settings import Settings

from crawlproj.commands.purge import Command
from crawlproj.config import Config
from crawlproj.discover.ranking import Candidate
from crawlproj.discover.seeds import SeedIntake, SeedList, parse_seed
from crawlproj.errors import ConfigError, CrawlError
from crawlproj.frontier import burying, keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Lease, Push
from crawlproj.frontier.outcomes import PutOff
from crawlproj.frontier.pacing import RetryDelay
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.records import RecordError, decode, key_of_url
from crawlproj.frontier.refusals import CrawlDamaged
from crawlproj.frontier.wire import unpack
from crawlproj.operate import status
from crawlproj.politeness.permission import Permission
from crawlproj.politeness.robots_store import MARK_BYTES
from crawlproj.server.connection import connect
from crawlproj.worker.join import join
from spiders.site import SiteSpider
from tests.lua.helpers import CRAWL, A, link, seed
from tests.servers.frontier import push_all
from tests.servers.redis import RedisServer

META, COUNTS = keys.meta(CRAWL, 0), keys.counts(CRAWL, 0)
LAYERS, WORKERS = keys.layers(CRAWL, 0), keys.workers(CRAWL, 0)
HOSTS, FOUND, SCOPE = keys.hosts(CRAWL, 0), keys.found(CRAWL, 0), keys.scope(CRAWL, 0)
DEEP = b"\x91" * 200_000
GIANT_ARRAY, GIANT_MAP, GIANT_TEXT = b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb" * 5
GIANT_EXT = b"\xc9\xff\xff\xff\xff\x01"
OWN_STRATEGY = f"{__name__}.own_strategy"
BOMBS = [DEEP, GIANT_ARRAY, GIANT_MAP, GIANT_TEXT, GIANT_EXT, b"\xc1", b""]

Spoil = Callable[["Redis[bytes]"], Any]


def plan_with(**values: Any) -> Spoil:
    def spoil(redis: Redis) -> None:
        plan = json.loads(redis.hget(META, "plan"))
        plan.update(values)
        redis.hset(META, "plan", json.dumps(plan))

    return spoil


def retyped(key: str) -> Spoil:
    return lambda redis: (redis.delete(key), redis.rpush(key, "x"))


DAMAGE: dict[str, Spoil] = {
    "no plan": lambda redis: redis.hdel(META, "plan"),
    "no state": lambda redis: redis.hdel(META, "state"),
    "plan is text": lambda redis: redis.hset(META, "plan", "text"),
    "plan is a list": lambda redis: redis.hset(META, "plan", "[]"),
    "plan is deep": lambda redis: redis.hset(META, "plan", "[" * 100_000),
    "plan is bytes": lambda redis: redis.hset(META, "plan", b"\xff\xfe"),
    "a million shards": plan_with(shards=1_000_000),
    "no shards": plan_with(shards=0),
    "shards as text": plan_with(shards="5"),
    "pages as a list": plan_with(pages=[]),
    "layers as text": lambda redis: redis.hset(LAYERS, "open", "many"),
    "a billion layers": lambda redis: redis.hset(LAYERS, "open", 10**9),
    "counts as text": lambda redis: redis.hset(COUNTS, "queued", "all"),
    "meta is a list": retyped(META),
    "counts are a list": retyped(COUNTS),
    "layers are a list": retyped(LAYERS),
}
IN_SCRIPTS: dict[str, Spoil] = {
    "per_host as text": lambda redis: redis.hset(META, "per_host", "x"),
    "pages as text": lambda redis: redis.hset(META, "pages", "x"),
    "tokens as text": lambda redis: redis.hset(META, "tokens", "x"),
    "clock as text": lambda redis: redis.hset(META, "skew_ms", "x"),
    "deadline gone": lambda redis: redis.hdel(META, "deadline_ms"),
    "counts as text": lambda redis: redis.hset(COUNTS, "leased", "x"),
    "hosts are a list": retyped(HOSTS),
}
RULES = {
    "no rules": lambda redis: redis.hset(META, "plan", json.dumps({"limits": {}})),
    "an unknown rule": plan_with(evil=1),
    "a bad pattern": plan_with(deny=["("]),
    "a scope of its own": plan_with(scope="everything"),
    "depth as text": plan_with(depth="deep"),
}


@pytest.fixture
async def stranger(redis_server: RedisServer) -> AsyncIterator[Frontier]:
    """Of a worker that has joined no crawl yet."""
    frontier = Frontier(await connect(redis_server.url), CRAWL, "w")
    yield frontier
    await frontier.client.aclose()


@pytest.fixture
async def frontier(stranger: Frontier) -> Frontier:
    """Of a worker in a crawl with two URLs."""
    await join(stranger, Config())
    await stranger.renew(1_000_000, {})
    await push_all(stranger, [link(A, "/1"), link(A, "/2")])
    return stranger


def one_line(error: CrawlError) -> bool:
    return len(str(error)) < 600 and "\n" not in str(error)


@pytest.mark.parametrize("name", DAMAGE)
async def test_a_damaged_crawl_is_reported_in_one_line_and_can_be_purged(
    frontier: Frontier, redis: Redis, name: str
) -> None:
    DAMAGE[name](redis)
    seen_by_a_command = Frontier(frontier.client, CRAWL, "command")
    with pytest.raises(CrawlDamaged, match="scrapy purge") as caught:
        await status.read(seen_by_a_command)
    assert one_line(caught.value)
    opts = argparse.Namespace(yes=True, json=False)
    purge = Command()
    purge.settings = Settings()
    assert await purge.work(Frontier(frontier.client, CRAWL, "command"), [], opts) == 0
    assert redis.dbsize() == 0


@pytest.mark.parametrize("name", IN_SCRIPTS)
async def test_a_script_that_meets_what_is_not_ours_stops_the_worker_with_one_line(
    frontier: Frontier, redis: Redis, name: str
) -> None:
    IN_SCRIPTS[name](redis)
    with pytest.raises(CrawlDamaged) as caught:
        await frontier.lease(2)
    assert one_line(caught.value)


@pytest.mark.parametrize("name", RULES)
async def test_a_plan_that_no_user_could_have_made_is_not_joined(
    frontier: Frontier, redis: Redis, name: str
) -> None:
    RULES[name](redis)
    with pytest.raises(CrawlDamaged) as caught:
        await join(Frontier(frontier.client, CRAWL, "other"), Config())
    assert one_line(caught.value)


async def test_redis_cannot_name_code_to_import(frontier: Frontier, redis: Redis) -> None:
    plan_with(strategy=OWN_STRATEGY)(redis)
    with pytest.raises(ConfigError, match=f"add -a strategy={OWN_STRATEGY} if you know it"):
        await join(Frontier(frontier.client, CRAWL, "other"), Config())
    told = Config(strategy=OWN_STRATEGY)
    assert (await join(Frontier(frontier.client, CRAWL, "w2"), told)).strategy == OWN_STRATEGY


def own_strategy(candidate: Candidate) -> float:
    return candidate.depth


@pytest.mark.parametrize("bomb", BOMBS, ids=range(len(BOMBS)))
async def test_a_msgpack_bomb_is_refused_by_python_and_by_the_scripts(
    frontier: Frontier, redis: Redis, bomb: bytes
) -> None:
    with pytest.raises(RecordError):
        decode(A, 0, b"\x00\x01" + bomb, SiteSpider())
    if bomb:
        with pytest.raises(ValueError):
            unpack(bomb)

    (held,) = (await frontier.lease(1)).leases
    redis.hset(keys.leased_prefix(CRAWL, 0) + "w", held.token, bomb)
    redis.hset(HOSTS, A, bomb)
    redis.zadd(keys.delayed(CRAWL, 0), {bomb: 0})
    redis.hset(keys.dead(CRAWL, 0), 77, bomb)
    assert await frontier.held_leases() == []
    assert [letter async for letter in frontier.shards[0].dead()] == []
    assert await frontier.shards[0].retry_dead([77]) == 0
    await frontier.lease(1)
    await burying.reclaim(frontier.shards[0], frontier.worker)
    now = await status.read(Frontier(frontier.client, CRAWL, "look"), in_detail=True)
    assert now.balance == 0
    assert now.slowest == now.held == ()


@pytest.mark.parametrize("bomb", BOMBS, ids=range(len(BOMBS)))
async def test_a_bomb_among_the_counted_links_is_passed_over(
    stranger: Frontier, redis: Redis, bomb: bytes
) -> None:
    await stranger.open(Plan(novelty="10 0.1 1 0.01"), "run")
    await push_all(stranger, [link(A, "/1")])
    redis.hset(FOUND, f"{A}/1", bomb)
    await push_all(stranger, [link(A, "/1")])
    assert (await stranger.counts())["duplicates"] == 1


async def test_names_that_are_no_text_are_shown_all_the_same(
    frontier: Frontier, redis: Redis
) -> None:
    redis.zadd(SCOPE, {b"\xff": 1})
    redis.hset(keys.about(CRAWL, 0), b"\xfe", b"\xfd")
    redis.zadd(WORKERS, {b"\xfe": 0})
    redis.hset(META, "started_ms", "long ago")
    assert "\ufffd" in await frontier.scope_since(0)
    now = await status.read(Frontier(frontier.client, CRAWL, "look"))
    assert "\ufffd" in [worker.name for worker in now.workers]
    assert now.started_at is None


HOSTILE_SEEDS = [
    b'{"url":' + b"[" * 100_000,
    b'{"url": "http://a/", "priority": ' + b"9" * 5000 + b"}",
    b'{"url": "http://a/", "meta": {"a": NaN}, "callback": "close"}',
    b'{"url": "http://a/", "method": ["GET"]}',
    b"\xff\xfe\x00",
    b"http://a\x00b/",
    b"file:///etc/passwd",
    b"",
]


async def test_hostile_seeds_are_rejected_each_with_its_reason_and_the_good_one_is_taken(
    stranger: Frontier, redis: Redis
) -> None:
    good = "http://good/"
    redis.rpush("seeds", *HOSTILE_SEEDS, good)

    def to_push(request: Request) -> Push:
        host, _ = key_of_url(request.url)
        return seed(host, request.url.removeprefix(host))

    async def push(pushes: list[Push]) -> None:
        taken.extend(one.key for one in pushes)

    taken: list[str] = []
    seeds = SeedList(stranger.client, "seeds")
    await SeedIntake(seeds, parse_seed, to_push, push, lambda: True).take()
    assert taken == [good]
    rejected = [json.loads(one) for one in redis.lrange(keys.rejected("seeds"), 0, -1)]
    assert len(rejected) == len(HOSTILE_SEEDS)
    assert all(one["reason"] for one in rejected)
    assert redis.llen("seeds") == 0


HOSTILE_ROBOTS = {
    "another type": lambda redis, key, _: redis.rpush(key, "x"),
    "a hash": lambda redis, key, _: redis.hset(key, "a", "b"),
    "bytes": lambda redis, key, mark: redis.set(key, mark + b"\xff" * 100),
    "a bomb": lambda redis, key, mark: redis.set(key, mark + DEEP),
}


@pytest.mark.parametrize("name", HOSTILE_ROBOTS)
async def test_robots_rules_that_are_not_ours_are_fetched_again(
    frontier: Frontier, redis: Redis, name: str
) -> None:
    asked: list[Push] = []
    permission = Permission(
        frontier,
        asked.append,
        user_agent="me",
        max_attempts=3,
        retry_delay=RetryDelay(1000, 1000),
        longest_pause_s=60,
    )
    key = keys.robots(CRAWL, 0, A)
    HOSTILE_ROBOTS[name](redis, key, frontier.shards[0].epoch[:MARK_BYTES].encode())
    page = Lease(0, 1, A, 0, b"")
    await permission.learn([page])
    assert not redis.exists(key)
    assert isinstance(permission.outcome_for(A, f"{A}/page"), PutOff)
    await permission.learn([page])
    assert [push.host for push in asked] == [A]


@pytest.mark.parametrize(
    ("host", "path"), [("file://", "/etc/passwd"), (A, "file:///etc/passwd"), (A, "data:,x")]
)
def test_a_record_never_leads_out_of_the_web(host: str, path: str) -> None:
    record = b"\x00\x01" + bytes(msgpack.packb([path, 0]))
    with pytest.raises(RecordError, match=r"something else than the web|cannot be read"):
        decode(host, 0, record, SiteSpider())
