"""The scripts on a real server against a plain model of them, step by step, in any order.

`make statemachine STEPS=10000` does the same for as many steps as asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.contract.machine import FrontierMachine, SpeculatingMachine
from tests.contract.planted import PLANTED, Bug
from tests.lua.helpers import HandCrawl, hand_crawl
from tests.servers.redis import RedisServer

BOUNDED = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@pytest.fixture(scope="module")
def logging_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server that has every write on disk before it answers."""
    folder = tmp_path_factory.mktemp("aof")
    with RedisServer(folder, "appendonly yes", "appendfsync always") as server:
        yield server


@pytest.fixture
def crawl(logging_server: RedisServer) -> Iterator[HandCrawl]:
    with logging_server.client() as redis, hand_crawl(logging_server.url, redis) as crawl:
        yield crawl


def _run(machine: type[FrontierMachine], server: RedisServer, crawl: HandCrawl, **how: Any) -> None:
    build: Any = partial(machine, server, crawl)
    run_state_machine_as_test(build, settings=settings(**BOUNDED, **how))


def test_the_scripts_and_the_model_agree(logging_server: RedisServer, crawl: HandCrawl) -> None:
    _run(FrontierMachine, logging_server, crawl, max_examples=30, stateful_step_count=50)


def test_they_agree_on_leases_that_two_workers_have(
    logging_server: RedisServer, crawl: HandCrawl
) -> None:
    _run(SpeculatingMachine, logging_server, crawl, max_examples=10, stateful_step_count=40)


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(
    bug: Bug,
    logging_server: RedisServer,
    crawl: HandCrawl,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = bug.plant(tmp_path_factory.mktemp("lua"), monkeypatch)
    with pytest.raises(AssertionError):
        _run(
            machine,
            logging_server,
            crawl,
            max_examples=100,
            stateful_step_count=50,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
        )


@pytest.mark.slow
def test_the_scripts_and_the_model_agree_for_long(
    logging_server: RedisServer, crawl: HandCrawl
) -> None:
    wanted = int(os.environ.get("STEPS", "10000"))
    FrontierMachine.steps = 0
    while FrontierMachine.steps < wanted:
        _run(
            FrontierMachine,
            logging_server,
            crawl,
            max_examples=50,
            stateful_step_count=50,
            database=None,
        )
    print(f"\n{FrontierMachine.steps:,} steps, each compared with the model: no violation")
