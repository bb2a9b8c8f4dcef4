"""The share of the possible rate that one worker reaches at a pause of one second a host.

Possible is one request a host in every pause plus the time that the origin itself takes to answer,
by the origin's own log: whatever the worker adds between the end of a pause and the next request
is lost. A host that is asked less than twice counts as asked once in the whole time. Where a core
is busy all the time, it is the core that limits, not the pace.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack

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
from crawlproj.demo.log import Logged, smallest_gap_s
from tests.servers.redis import RedisServer


def web(hosts: int, pause_s: float, seconds: float, latency_s: float) -> WebSpec:
    """Small pages, and more of them on each host than can be asked for in the time."""
    each = int((seconds + WARM_UP_S) / pause_s) + 10
    return WebSpec(
        hosts=hosts,
        pages=hosts * each,
        depth=2,
        nav_links=1,
        content_links=each,
        page_bytes=2_000,
        latency_s=latency_s,
    ).smooth()


def measure(
    server: RedisServer, client: redis.Redis, hosts: int, options: argparse.Namespace
) -> Row:
    spec = web(hosts, options.pause, options.seconds, options.latency)
    settings = {"POLITENESS_DELAY": options.pause, "CONCURRENT_REQUESTS": options.concurrency}
    with DemoServer(spec) as demo:
        pin(demo.pid, cores()[0])
        ran = run_workers(
            demo,
            server,
            client,
            workers=options.workers,
            seconds=options.seconds,
            profile="default",
            settings=settings,
        )
        gap_s = min(smallest_gap_s(demo.requests()).values())
    pages, turn_s = len(ran.pages), options.pause + usual_s(ran.pages)
    return {
        "hosts": hosts,
        "pages_per_s": pages / ran.seconds,
        "possible_per_s": hosts / turn_s,
        "share": turn_s / mean_turn_s(ran.pages, hosts, ran.seconds),
        "smallest_gap_s": gap_s,
        "core_busy": ran.cpu_s / ran.seconds,
        "redis_calls_per_page": ran.redis_calls / pages,
        "cpu_ms_per_page": 1000 * ran.cpu_s / pages,
        "redis_cpu_ms_per_page": 1000 * ran.redis_cpu_s / pages,
        "max_rss_mb": ran.max_rss_mb,
    }


def usual_s(pages: Sequence[Logged]) -> float:
    """How long the origin took for a page."""
    return sum(page.end_s - page.start_s for page in pages) / len(pages)


def mean_turn_s(pages: Sequence[Logged], hosts: int, seconds: float) -> float:
    """From one request to a host to the next. Counting pages would be less exact: hosts whose
    turns coincide fall into the stretch, or out of it, all together."""
    starts: defaultdict[str, list[float]] = defaultdict(list)
    for page in pages:
        starts[page.host].append(page.start_s)
    asked = [times for times in starts.values() if len(times) > 1]
    starved = hosts - len(asked)
    spent_s = sum(max(times) - min(times) for times in asked) + starved * seconds
    return spent_s / (sum(len(times) - 1 for times in asked) + starved)


def main() -> None:
    options = _parser().parse_args()
    rounds: list[Row] = []
    with ExitStack() as stack:
        server, client = stack.enter_context(redis_server())
        about = machine(client)
        pin(0, cores()[0])
        for number in range(options.rounds):
            for hosts in options.hosts:
                say(f"round {number + 1} of {options.rounds}: {hosts:,} hosts")
                rounds.append(measure(server, client, hosts, options))
    publish("polite", {**about, **vars(options)}, medians(rounds, "hosts"))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.polite", description=__doc__)
    parser.add_argument("--hosts", type=numbers, default=[10, 100, 1000], help="[10,100,1000]")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds [1]")
    parser.add_argument("--latency", type=float, default=0.005, help="of the origin, seconds")
    parser.add_argument("--seconds", type=float, default=12.0, help="measured [12]")
    parser.add_argument("--concurrency", type=int, default=64, help="requests at a time [64]")
    parser.add_argument("--workers", type=int, default=1, help="[1]")
    parser.add_argument("--rounds", type=int, default=1, help="[1]")
    return parser


if __name__ == "__main__":
    main()
