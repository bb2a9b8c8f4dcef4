"""1 … 8 workers on an origin that takes 100 ms for every page, over many hosts.

Each worker has few connections, so that it waits most of the time, as it would for real servers:
workers then add up until the cores are full, unless the shared frontier keeps them apart. Workers
share the crawlers' cores; how busy those were stands beside each row.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from itertools import product

import redis

from benchmarks.common import (
    Row,
    cores,
    machine,
    medians,
    numbers,
    pin,
    publish,
    redis_server,
    say,
)
from benchmarks.fleet import WARM_UP_S, run_workers
from crawlproj.demo import DemoServer, WebSpec
from tests.servers.redis import RedisServer


def web(options: argparse.Namespace, workers: int, concurrency: int) -> WebSpec:
    """More pages than the workers could fetch in the time."""
    most = workers * concurrency / options.latency * (options.seconds + 2 * WARM_UP_S)
    each = max(20, int(1.2 * most / options.hosts))
    return WebSpec(
        hosts=options.hosts,
        pages=options.hosts * each,
        depth=3,
        latency_s=options.latency,
        content_links=20,
    ).smooth()


def measure(
    server: RedisServer,
    client: redis.Redis,
    workers: int,
    concurrency: int,
    options: argparse.Namespace,
) -> Row:
    settings = {"CONCURRENT_REQUESTS": concurrency, "POLITENESS_PER_HOST": 4}
    spec = web(options, workers, concurrency)
    with DemoServer(spec) as demo:
        pin(demo.pid, cores()[0])
        ran = run_workers(
            demo,
            server,
            client,
            workers=workers,
            seconds=options.seconds,
            profile="fast",
            settings=settings,
        )
    pages = len(ran.pages)
    return {
        "setup": f"{workers} × {concurrency}",
        "workers": workers,
        "concurrency": concurrency,
        "pages_per_s": pages / ran.seconds,
        "share_of_possible": pages / ran.seconds / (workers * concurrency / options.latency),
        "repeated": pages - len({page.url for page in ran.pages}),
        "cpu_ms_per_page": 1000 * ran.cpu_s / pages,
        "cores_busy": ran.cpu_s / ran.seconds,
        "redis_cpu_ms_per_page": 1000 * ran.redis_cpu_s / pages,
        "redis_calls_per_page": ran.redis_calls / pages,
        "max_rss_mb": ran.max_rss_mb,
    }


def with_gains(rows: list[Row]) -> list[Row]:
    """Each beside one worker with as many connections."""
    single = {row["concurrency"]: row["pages_per_s"] for row in rows if row["workers"] == 1}
    for row in rows:
        alone = single.get(row["concurrency"])
        row["times_one_worker"] = alone and row["pages_per_s"] / alone
    return rows


def main() -> None:
    options = _parser().parse_args()
    rounds: list[Row] = []
    with ExitStack() as stack:
        server, client = stack.enter_context(redis_server())
        about = machine(client)
        pin(0, cores()[0])
        setups = list(product(options.concurrency, options.workers))
        for number in range(options.rounds):
            for concurrency, workers in setups:
                say(f"round {number + 1} of {options.rounds}: {workers} × {concurrency}")
                rounds.append(measure(server, client, workers, concurrency, options))
    publish("scaling", {**about, **vars(options)}, with_gains(medians(rounds, "setup")))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--workers", type=numbers, default=[1, 2, 4, 8], help="[1,2,4,8]")
    parser.add_argument("--concurrency", type=numbers, default=[4, 8], help="of each [4,8]")
    parser.add_argument("--hosts", type=int, default=200, help="[200]")
    parser.add_argument("--latency", type=float, default=0.1, help="seconds [0.1]")
    parser.add_argument("--seconds", type=float, default=8.0, help="measured [8]")
    parser.add_argument("--rounds", type=int, default=1, help="[1]")
    return parser


if __name__ == "__main__":
    main()
