"""What a worker is told of the crawl that it joins."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from scrapy import Spider
from scrapy.settings import Settings

from crawlproj.config import Config
from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier, Limits
from crawlproj.frontier.refusals import CrawlNewer
from crawlproj.server.connection import connect
from crawlproj.worker.join import join, seed_list
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
