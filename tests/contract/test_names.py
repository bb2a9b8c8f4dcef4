"""Of workers that are given the same name one works under it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest
from redis import Redis

from crawlproj.config import Config
from crawlproj.errors import ConfigError
from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.worker_names import marked
from crawlproj.server.connection import connect
from crawlproj.worker.identity import claim_name
from crawlproj.worker.join import join
from tests.servers.redis import RedisServer

LEASE_TIMEOUT_S = 60.0


async def claim_as(frontier: Frontier, pid: int) -> bool:
    """Whether a process of that number gets the worker's name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getpid", lambda: pid)
        try:
            await claim_name(frontier, LEASE_TIMEOUT_S)
        except ConfigError as error:
            assert "Another worker is called one (process " in str(error)
            return False
    return True


async def claim_in_turn(
    url: str, names: Sequence[str], pids: Sequence[int], shards: int = 1
) -> list[bool]:
    """Which of some workers that have joined at the same moment get their names."""
    async with await connect(url) as client:
        workers = [Frontier(client, "c", marked(name)) for name in names]
        for worker in workers:
            await join(worker, Config(shards=shards))
        return [await claim_as(one, pid) for one, pid in zip(workers, pids, strict=True)]


def live_pids() -> list[int]:
    return [os.getppid(), os.getpid()]


def first_is_dead() -> list[int]:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return [process.pid, os.getpid()]


def same_pid() -> list[int]:
    """As a container has that comes back."""
    return [os.getpid()] * 2


@pytest.mark.parametrize(
    ("pids", "claimed"),
    [(live_pids, [True, False]), (first_is_dead, [True, True]), (same_pid, [True, True])],
)
@pytest.mark.parametrize("shards", [1, 3])
async def test_of_two_that_start_at_the_same_moment_the_first_has_the_name(
    redis_server: RedisServer,
    redis: Redis,
    pids: Callable[[], list[int]],
    claimed: list[bool],
    shards: int,
) -> None:
    found = await claim_in_turn(redis_server.url, ("one", "one"), pids(), shards)
    assert found == claimed
    assert redis.zcard(keys.workers("c", 0)) == 1


async def test_a_name_is_taken_by_no_longer_one_that_begins_like_it(
    redis_server: RedisServer,
) -> None:
    found = await claim_in_turn(redis_server.url, ("one~more", "one"), live_pids())
    assert found == [True, True]
