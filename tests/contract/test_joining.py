"""What a worker is told of the crawl that it joins."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scrapy import Spider
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from crawlproj.config import Config
from crawlproj.discover.seeds import SeedList
from crawlproj.errors import ConfigError, CrawlError
from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.limits import Limits
from crawlproj.frontier.refusals import CrawlNewer
from crawlproj.frontier.shard import Shard
from crawlproj.server.connection import connect
from crawlproj.worker import replan
from crawlproj.worker.idle import Idle
from crawlproj.worker.join import join, seed_list
from crawlproj.worker.lobby import Lobby
from tests.lua.helpers import seed
from tests.servers.redis import RedisServer

BEGUN_WITH = {"minutes": 1 / 7, "give_up": 3, "max_attempts": 5, "seen_capacity": 1000}
OTHERS: list[dict[str, Any]] = [
    {"minutes": 9.0},
    {"give_up": 0},
    {"max_attempts": 2},
    {"shards": 3},
    {"seen_capacity": 99},
    {"seen_error_rate": 0.1},
]


async def told(url: str, asked: dict[str, Any], *, interrupted: bool = False) -> Config:
    """The settings of a worker that joins, or resumes, a crawl and asks for something."""
    client = await connect(url)
    first = Frontier(client, "c", "first")
    await join(first, Config(**BEGUN_WITH))
    if interrupted:
        await first.push([seed("http://a", "/")])
    config = await join(Frontier(client, "c", "w"), Config(**{**BEGUN_WITH, **asked}), asked)
    await client.aclose()
    return config


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]


@pytest.mark.parametrize("asked", OTHERS, ids=lambda asked: next(iter(asked)))
def test_a_limit_that_has_no_effect_is_told_to_whoever_asked_for_it(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture, asked: dict[str, Any]
) -> None:
    asyncio.run(told(redis_server.url, asked))
    [warning] = warnings(caplog)
    assert warning.startswith(f"The crawl was begun with {next(iter(asked))} ")


def test_who_asks_for_what_the_crawl_has_is_told_nothing(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    config = asyncio.run(told(redis_server.url, dict(BEGUN_WITH)))
    assert warnings(caplog) == []
    assert (config.give_up, config.max_attempts) == (3, 5)


def test_who_resumes_a_crawl_may_say_how_long_it_goes_on(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(told(redis_server.url, {"minutes": 9.0}, interrupted=True))
    assert warnings(caplog) == []


# Plans of other versions


async def rejoined(url: str, change: Callable[[dict[str, Any]], Any]) -> Config:
    """The settings of a worker that resumes a crawl whose plan another version has written."""
    async with await connect(url) as client:
        before = Frontier(client, "c", "before")
        await join(before, Config(scope="any", deny=("x",), **BEGUN_WITH))
        await before.push([seed("http://a", "/")])
        plan = json.loads(await client.hget(keys.meta("c", 0), "plan"))
        change(plan)
        await client.hset(keys.meta("c", 0), "plan", json.dumps(plan))
        return await join(Frontier(client, "c", "w"), Config())


def older(plan: dict[str, Any]) -> None:
    del plan["version"]
    for part, names in (("rules", ("traps", "drop_params")), ("limits", ("give_up", "group"))):
        for name in names:
            del plan[part][name]


def test_a_crawl_that_an_older_version_has_begun_goes_on(redis_server: RedisServer) -> None:
    """What that version did not know of is as it was without it."""
    config = asyncio.run(rejoined(redis_server.url, older))
    assert (config.scope, config.deny, config.max_attempts) == ("any", ("x",), 5)
    defaults = Config()
    assert (config.traps, config.drop_params) == (defaults.traps, defaults.drop_params)
    assert (config.give_up, config.group) == (Limits().give_up, Limits().group)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda plan: plan.update(version=99), "version 99"),
        (lambda plan: plan["rules"].update(render="auto", zeal=1), "render, zeal"),
        (lambda plan: plan["limits"].update(cost=1), "cost"),
    ],
)
def test_a_crawl_of_a_newer_version_is_not_taken_for_damaged(
    redis_server: RedisServer, change: Callable[[dict[str, Any]], Any], named: str
) -> None:
    with pytest.raises(CrawlNewer) as caught:
        asyncio.run(rejoined(redis_server.url, change))
    assert f"has {named}, which this version" in str(caught.value)
    assert "purge" not in str(caught.value)


class Fixed(Spider):
    name, redis_key = "shop", "shop:urls"


class Templated(Spider):
    name, redis_key = "shop", "%(name)s:urls"


@pytest.mark.parametrize(
    ("spider", "settings", "crawl", "key"),
    [
        (Fixed, {}, "shop", "shop:urls"),
        (Fixed, {}, "docs", "docs:start_urls"),
        (Templated, {}, "docs", "docs:urls"),
        (Spider, {"REDIS_START_URLS_KEY": "%(name)s:s"}, "docs", "docs:s"),
        (Spider, {"REDIS_START_URLS_KEY": "all"}, "docs", "docs:start_urls"),
        (Spider, {}, "docs", "docs:start_urls"),
    ],
)
def test_a_crawl_that_is_not_called_like_its_spider_has_seeds_of_its_own(
    spider: type[Spider], settings: dict[str, str], crawl: str, key: str
) -> None:
    made = spider(name="shop")
    assert seed_list(None, Settings(settings), made, crawl).key == key


# What can be changed


PLAN = {"pages": 10, "pages_per_host": 5, "depth": 2, "delay_s": 1.0, "per_host": 1}


async def resumed(url: str, **asked: Any) -> tuple[Config | None, dict[str, Any]]:
    """The settings of a worker that resumes a crawl of three shards and asks for something, and
    what the crawl goes by then."""
    async with await connect(url) as client:
        first = Frontier(client, "c", "first")
        await join(first, Config(shards=3, **PLAN))
        await first.push([seed("http://a", "/")])
        config = await join(
            Frontier(client, "c", "w"), Config(**{"shards": 3, **PLAN, **asked}), asked
        )
        meta = await first.attach()
        return config, replan.changeable(json.loads(meta["plan"]), first.limits)


@pytest.mark.parametrize(
    "asked",
    [{"pages": 30}, {"pages_per_host": 6}, {"depth": 3}, {"delay_s": 0.5}, {"per_host": 4}],
    ids=lambda asked: next(iter(asked)),
)
def test_who_resumes_a_crawl_may_raise_its_budgets_and_depth_and_change_its_pace(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture, asked: dict[str, Any]
) -> None:
    config, now = asyncio.run(resumed(redis_server.url, **asked))
    [(name, value)] = asked.items()
    assert getattr(config, name) == value
    assert now[name.removesuffix("_s")] == value
    assert warnings(caplog) == []


@pytest.mark.parametrize("asked", [{"pages": 5}, {"depth": 1}, {"pages_per_domain": 7}])
def test_what_cannot_be_lowered_or_added_stays_and_is_told(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture, asked: dict[str, Any]
) -> None:
    config, now = asyncio.run(resumed(redis_server.url, **asked))
    [name] = asked
    assert getattr(config, name) == PLAN.get(name) == now[name]
    [warning] = warnings(caplog)
    assert f"begun with {name}" in warning and "scrapy change c" in warning


async def changed_while_running(url: str) -> tuple[Limits, list[dict[str, Any]], int]:
    async with await connect(url) as client:
        working = Frontier(client, "c", "w")
        await join(working, Config(shards=3, **PLAN))
        heard: list[dict[str, Any]] = []
        working.on_plan = heard.append
        await working.renew(60_000, {})
        for _ in range(2):  # whoever asks again for what is so changes nothing
            await replan.change(Frontier(client, "c", "command"), {"pages": 20, "depth": 4})
        await working.renew(60_000, {})
        shares = [int(await client.hget(keys.meta("c", shard), "pages")) for shard in range(3)]
        return working.limits, heard, sum(shares)


def test_a_worker_hears_with_its_heartbeat_that_the_plan_has_changed(
    redis_server: RedisServer,
) -> None:
    limits, heard, shares = asyncio.run(changed_while_running(redis_server.url))
    assert (limits.pages, limits.shards, shares) == (20, 3, 20)
    assert [plan["rules"]["depth"] for plan in heard] == [4]


@pytest.mark.parametrize(
    ("pushed", "is_told"), [([], False), (["/a"], False), (["/a", "/b"], False), (["/c"], True)]
)
def test_who_is_started_with_those_who_push_the_same_seeds_is_not_told_that_it_adds_some(
    redis_server: RedisServer,
    caplog: pytest.LogCaptureFixture,
    pushed: list[str],
    is_told: bool,
) -> None:
    async def test() -> None:
        async with await connect(redis_server.url) as client:
            first = Frontier(client, "c", "first")
            await join(first, Config())
            await first.renew(60_000, {})
            await first.push(seed("http://a.com", path) for path in pushed)
            seeds = "http://a.com/a,http://a.com/b"
            await join(Frontier(client, "c", "w"), Config(seeds=seeds))

    asyncio.run(test())
    assert any("are added to it" in one for one in warnings(caplog)) == is_told


@pytest.mark.parametrize(
    ("wanted", "connections"), [({"delay": 5.0}, 1), ({"delay": 5.0, "per_host": 2}, 2)]
)
def test_a_delay_that_is_given_to_a_crawl_without_one_means_one_connection_unless_it_says_more(
    redis_server: RedisServer, wanted: dict[str, Any], connections: int
) -> None:
    async def test() -> dict[str, Any]:
        async with await connect(redis_server.url) as client:
            await join(Frontier(client, "c", "w"), Config(delay_s=0, per_host=8))
            return await replan.change(Frontier(client, "c", "command"), wanted)

    now = asyncio.run(test())
    assert (now["delay"], now["per_host"]) == (5.0, connections)


async def changed_after_a_death(
    url: str, dies_at: str, monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    """The plans of all shards, after one change when the process before died half-way."""
    operation = getattr(Shard, dies_at)

    async def dies(shard: Shard, *args: Any, **named: Any) -> Any:
        if shard.number == 1:
            raise ConnectionError
        return await operation(shard, *args, **named)

    async with await connect(url) as client:
        first, second = Frontier(client, "c", "first"), Frontier(client, "c", "second")
        monkeypatch.setattr(Shard, "open", dies if dies_at == "open" else Shard.open)
        monkeypatch.setattr(Shard, "replan", dies if dies_at == "replan" else Shard.replan)
        with pytest.raises(ConnectionError):
            await join(first, Config(shards=3, **PLAN))
            await replan.change(first, {"depth": 7})
        monkeypatch.undo()
        await join(second, Config(shards=1))
        await replan.change(Frontier(client, "c", "command"), {"pages": 20})
        return [json.loads((await shard.meta())["plan"]) for shard in second.shards]


@pytest.mark.parametrize("dies_at", ["open", "replan"])
def test_a_plan_can_be_changed_though_who_began_or_changed_it_died_before_all_shards_had_it(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, dies_at: str
) -> None:
    plans = asyncio.run(changed_after_a_death(redis_server.url, dies_at, monkeypatch))
    assert len(plans) == 3 and plans[0] == plans[1] == plans[2]
    assert (plans[0]["limits"]["pages"], plans[0]["rules"]["depth"]) == (20, PLAN["depth"])


def test_a_crawl_of_several_shards_that_waits_for_its_first_seed_can_be_stopped(
    redis_server: RedisServer,
) -> None:
    async def test() -> None:
        async with await connect(redis_server.url) as client:
            assert (
                await join(Frontier(client, "c", "w"), Config(shards=3), brings_seed=False) is None
            )
            command = Frontier(client, "c", "command")
            assert (await command.attach())["waits"] == "1"
            assert await command.control("paused", ["running"]) == "paused"
            assert await command.control("stopping", ["paused"]) == "stopped"
            with pytest.raises(CrawlError, match="has not begun"):
                await replan.change(command, {"delay": 2})

    asyncio.run(test())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pages"], "give NAME=VALUE"),
        (["scope=any"], "scope: cannot be changed while a crawl goes on; pages,"),
        (["depth=x"], "depth=x: give a whole number"),
    ],
)
def test_a_change_that_cannot_be_read_is_answered_in_one_line(words: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        replan.parse(words)
    assert said in str(caught.value)


async def brought_meanwhile(url: str) -> str:
    """A spider's `start()` yields its one seed, and ends, while Redis is asked for others."""
    client = await connect(url)
    frontier = Frontier(client, "plain", "worker")
    assert await join(frontier, Config(), brings_seed=False) is None
    brings = iter([False])
    lobby = Lobby(
        frontier,
        SeedList(client, "plain:start_urls"),
        redis=url,
        folder=Path(),
        check=None,
        brings_own=lambda: next(brings, True),
        may_bring=lambda: False,
        lease_timeout_s=20,
        idle=Idle(get_crawler(), lambda: False),
        patience_s=60,
    )
    try:
        return await lobby.wait()
    finally:
        await client.aclose()


def test_a_worker_that_brings_a_seed_does_not_say_that_it_waits_for_some(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert asyncio.run(brought_meanwhile(redis_server.url)) == "own seed"
    assert "waits for seeds" not in caplog.text
