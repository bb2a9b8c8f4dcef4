"""The frame of a benchmark: a Redis, the cases in turn for some rounds, medians, one table.

Cases take turns (A B C A B C …), so that whatever else the machine does meets all of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import redis

from benchmarks.common import (
    Row,
    cores,
    end_cleanly,
    machine,
    medians,
    pin,
    publish,
    redis_server,
    say,
)
from tests.servers.redis import RedisServer

Measure = Callable[[RedisServer, redis.Redis, Any], Iterable[Row]]


def parser(name: str, about: str | None, rounds: int = 1) -> argparse.ArgumentParser:
    """One that knows the number of rounds. A benchmark begins here: it ends cleanly from now on."""
    end_cleanly()
    made = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=about)
    made.add_argument("--rounds", type=int, default=rounds, help=f"[{rounds}]")
    return made


def run(
    name: str,
    options: argparse.Namespace,
    cases: Sequence[Any],
    measure: Measure,
    *,
    by: Sequence[str],
    finish: Callable[[list[Row]], list[Row]] = list,
    on_crawlers_core: bool = False,
) -> None:
    """Measure every case in every round and publish the medians of what is alike in `by`. The
    benchmark's own process stays off the crawlers' cores unless it does the work itself."""
    rows: list[Row] = []
    with redis_server() as (server, client):
        about = machine(client)
        pin(0, cores()[1 if on_crawlers_core else 0])
        for number in range(options.rounds):
            for case in cases:
                say(f"{name}, round {number + 1} of {options.rounds}: {_shown(case)}")
                rows += measure(server, client, case)
    publish(name, about, vars(options), finish(medians(rows, *by)))


def _shown(case: Any) -> str:
    parts = case if type(case) is tuple else (case,)
    return " × ".join(f"{part:,}" if isinstance(part, int) else str(part) for part in parts)
