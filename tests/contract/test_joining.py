"""What a worker is told of the crawl that it joins."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from crawlproj.config import Config
from crawlproj.frontier.frontier import Frontier
from crawlproj.server.connection import connect
from crawlproj.worker.join import join
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
