"""How long pages take, and a whole crawl, when one of several workers is crippled: with
FRONTIER_SPECULATE off and on, and without a cripple.

The crippled worker is stopped (SIGSTOP) most of the time, for shorter than the lease timeout, as on
a machine that swaps: its heartbeat comes through, so nobody takes its leases back. From when a
URL is leased until it is settled is read from Redis, which is looked at every `LOOK_S`; a crawl
ends when it says so, whatever the crippled worker still does. What the origin was asked more
than once, and whether any host was asked faster or more at a time than it should be, is by its log.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Event, Thread
from typing import Any, NamedTuple

import redis

from benchmarks import rounds
from benchmarks.common import Row, cores, empty, pin
from benchmarks.fleet import CRAWL, man
from crawlproj.demo import DemoServer, WebSpec
from crawlproj.frontier import keys
from crawlproj.frontier.wire import unpack_all
from crawlproj.operate.audit import Limits, audit
from crawlproj.operate.request_log import Logged, fetch_counts
from crawlproj.politeness.robot_rules import PATH as ROBOTS_TXT
from tests.servers.redis import RedisServer

LOOK_S = 0.02
LONGEST_S = 600.0
OUTRUN = b""
"""What a lease's record ends with once another worker has settled its URL (lua/_copies.lua)."""


class Case(NamedTuple):
    crippled: bool
    speculate: bool


CASES = [Case(False, False), Case(True, False), Case(True, True)]


class Watch:
    """How long each URL was leased, as seen from outside."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._since: dict[tuple[bytes, bytes], float] = {}
        self.lasted_s: list[float] = []

    def until_finished(self) -> float:
        """Look until the crawl has ended; returns how long it took from its first lease."""
        began_s, end_s = 0.0, time.monotonic() + LONGEST_S
        while time.monotonic() < end_s:
            held, now_s = self._held(), time.monotonic()
            began_s = began_s or (now_s if held else 0.0)
            for url in self._since.keys() - held:
                self.lasted_s.append(now_s - self._since.pop(url))
            for url in held - self._since.keys():
                self._since[url] = now_s
            if self._client.hget(keys.meta(CRAWL, 0), "state") == b"finished":
                return now_s - began_s
            time.sleep(LOOK_S)
        raise SystemExit(f"not finished after {LONGEST_S:.0f} s")

    def _held(self) -> set[tuple[bytes, bytes]]:
        """Host and entry of all that is leased; whoever has it, and by how many."""
        found = set()
        workers: Any = self._client.zrange(keys.workers(CRAWL, 0), 0, -1)
        for worker in workers:
            held: Any = self._client.hvals(f"{keys.leased_prefix(CRAWL, 0)}{worker.decode()}")
            for packed in held:
                host, _, entry, *rest = unpack_all(packed)
                if rest[2:3] != [OUTRUN]:
                    found.add((host, entry[1:]))  # without its attempts
        return found

    def share(self, part: float) -> float:
        """Seconds that so large a part of the URLs took at most."""
        ordered = sorted(self.lasted_s)
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


@contextmanager
def crippling(pid: int, client: redis.Redis, options: argparse.Namespace) -> Iterator[None]:
    """Stop a worker again and again while it holds something, and let it go on at the end."""
    is_over = Event()
    held = f"{keys.leased_prefix(CRAWL, 0)}{name_of(pid, client)}"

    def cripple() -> None:
        while not is_over.wait(options.runs):
            while not client.hlen(held) and not is_over.wait(LOOK_S):
                pass
            os.kill(pid, signal.SIGSTOP)
            is_over.wait(options.stopped)
            os.kill(pid, signal.SIGCONT)

    thread = Thread(target=cripple)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def name_of(pid: int, client: redis.Redis) -> str:
    """As Redis knows the worker of that process."""
    about: Any = client.hgetall(keys.about(CRAWL, 0))
    [name] = [name for name, told in about.items() if json.loads(told)["pid"] == pid]
    return str(name.decode())


def measure(
    options: argparse.Namespace, server: RedisServer, client: redis.Redis, case: Case
) -> Iterator[Row]:
    empty(client)
    spec = WebSpec(hosts=options.hosts, pages=options.pages, latency_s=options.latency).smooth()
    settings = {
        "POLITENESS_DELAY": options.delay,
        "POLITENESS_PER_HOST": options.per_host,
        # The crippled worker takes the time that it stood still for the host's.
        "POLITENESS_SLOWNESS": 0,
        "CONCURRENT_REQUESTS": options.concurrency,
        "FRONTIER_SPECULATE": case.speculate,
        "CRAWL_ALLOW_ADDRESSES": "loopback",
    }
    watch = Watch(client)
    with ExitStack() as stack:
        demo = stack.enter_context(DemoServer(spec))
        pin(demo.pid, cores()[0])
        crew = man(stack, server.url, options.workers, "default", **settings)
        client.lpush(keys.start_urls(CRAWL), *demo.seeds)
        with ExitStack() as crippled:
            if case.crippled:
                crippled.enter_context(crippling(crew[0].pid, client, options))
            took_s = watch.until_finished()
        for worker in crew:
            worker.wait(options.stopped + 30)
        log = demo.requests()
    yield {
        "crippled": "one" if case.crippled else "none",
        "speculate": "on" if case.speculate else "off",
        "pages": len(watch.lasted_s),
        "p50_s": watch.share(0.5),
        "p95_s": watch.share(0.95),
        "p99_s": watch.share(0.99),
        "max_s": max(watch.lasted_s),
        "crawl_s": took_s,
        **of_origin(log, options),
        **of_ledger(client),
    }


def of_origin(log: list[Logged], options: argparse.Namespace) -> Row:
    pages = [one for one in log if one.path != ROBOTS_TXT]
    hosts = audit(log, Limits(options.delay, options.per_host))
    return {
        "asked_again": sum(times - 1 for times in fetch_counts(pages).values()),
        "too_fast": sum(bool(host.broken) for host in hosts),
    }


def of_ledger(client: redis.Redis) -> Row:
    counts: Any = client.hgetall(keys.counts(CRAWL, 0))
    return {name: int(counts.get(name.encode(), 0)) for name in ("copies", "late", "reclaimed")}


def main() -> None:
    parser = rounds.parser("straggler", __doc__, rounds=3)
    add = parser.add_argument
    add("--workers", type=int, default=4, help="[4]")
    add("--hosts", type=int, default=20, help="[20]")
    add("--pages", type=int, default=1500, help="[1500]")
    add("--latency", type=float, default=0.2, help="of the origin, seconds [0.2]")
    add("--delay", type=float, default=0.25, help="between requests of a connection, s [0.25]")
    add("--per-host", type=int, default=4, help="connections [4]")
    add("--concurrency", type=int, default=8, help="requests of a worker at a time [8]")
    add("--stopped", type=float, default=8.0, help="seconds that the cripple stands still [8]")
    add("--runs", type=float, default=1.0, help="and then runs [1]")
    options = parser.parse_args()
    rounds.run("straggler", options, CASES, partial(measure, options), by=["crippled", "speculate"])


if __name__ == "__main__":
    main()
