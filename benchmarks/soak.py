"""A fleet at full speed for as long as asked: what grows, and what stays as it is.

Workers stay in one crawl and are given one demo web after the other, each on hosts of its own, so
that they never run dry. Each interval shows their memory and open files, those of Redis, how long
Redis takes to answer a PING meanwhile, and pages a second; the last row is the slope of each
figure, an hour, by least squares. Redis grows by what it keeps of each host.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import redis

from benchmarks import rounds
from benchmarks.common import (
    Row,
    cores,
    machine,
    memory_bytes,
    pin,
    print_table,
    publish,
    redis_server,
    rounded,
    say,
)
from benchmarks.fleet import CRAWL, man
from benchmarks.meter import Metered
from crawlproj.demo import DemoServer, WebSpec
from crawlproj.frontier import keys
from tests.servers.redis import RedisServer

PROBE_EVERY_S = 0.05
FEW_LEFT = 0.25
"""Share of a web that is still to be crawled when the next one is given."""
KEPT = 2
"""Webs that are served at a time: nothing of those before is in the queue any more."""
HOUR_MIN = 60.0


class Webs:
    """Demo webs, one after the other: the next is ready before the last is crawled."""

    def __init__(self, client: redis.Redis, spec: WebSpec) -> None:
        self._client = client
        self._spec = spec
        self._given = 0
        self._known: set[str] = set()
        self._serving: deque[DemoServer] = deque()
        self._starter = ThreadPoolExecutor(1)
        self._next = self._starter.submit(self._start)

    def keep_coming(self) -> None:
        """Give another one when little is left of those before."""
        left = self._given * self._spec.pages - _ended(self._client)
        if self._given == 0 or (left < FEW_LEFT * self._spec.pages and self._next.done()):
            demo = self._next.result()
            self._client.lpush(keys.start_urls(CRAWL), *demo.seeds)
            self._given += 1
            self._serving.append(demo)
            if len(self._serving) > KEPT:
                self._serving.popleft().__exit__(None, None, None)
            self._next = self._starter.submit(self._start)

    def _start(self) -> DemoServer:
        """At a port that no web before had: its pages would be known, and none would be fetched."""
        demo = DemoServer(self._spec).__enter__()
        while demo.seeds[0] in self._known:
            demo.__exit__(None, None, None)
            demo = DemoServer(self._spec).__enter__()
        self._known.add(demo.seeds[0])
        pin(demo.pid, cores()[0])
        return demo

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._serving.append(self._next.result())
        for demo in self._serving:
            demo.__exit__(None, None, None)
        self._starter.shutdown()


def _count(client: redis.Redis, name: str) -> int:
    found: Any = client.hget(keys.counts(CRAWL, 0), name)
    return int(found or 0)


def _ended(client: redis.Redis) -> int:
    """Pages that are done, and those that will never be: a web may end before its last pages."""
    counts: Any = client.hgetall(keys.counts(CRAWL, 0))
    ends = (b"done", b"dead")
    return sum(
        int(count)
        for name, count in counts.items()
        if name in ends or name.startswith(b"filtered:")
    )


def intervals(
    webs: Webs,
    server: RedisServer,
    client: redis.Redis,
    crew: Sequence[Metered],
    options: argparse.Namespace,
) -> Iterator[Row]:
    """A row for each interval, until the time is over."""
    began_s = time.monotonic()
    while time.monotonic() - began_s < 60 * options.minutes:
        start_s, done, probes = time.monotonic(), _count(client, "done"), []
        while time.monotonic() - start_s < options.interval:
            webs.keep_coming()
            probes.append(_ping_ms(client))
            time.sleep(PROBE_EVERY_S)
        took_s = time.monotonic() - start_s
        yield {
            "minute": (time.monotonic() - began_s) / 60,
            "pages_per_s": (_count(client, "done") - done) / took_s,
            "worker_mb": max(_rss_mb(worker.pid) for worker in crew),
            "worker_files": max(_files(worker.pid) for worker in crew),
            "redis_mb": memory_bytes(client) / 1e6,
            "redis_rss_mb": _rss_mb(server.pid),
            "redis_files": _files(server.pid),
            **_percentiles(probes),
            "hosts": client.hlen(keys.hosts(CRAWL, 0)),
            "queued": _count(client, "queued"),
        }


def _ping_ms(client: redis.Redis) -> float:
    began_s = time.perf_counter()
    client.ping()
    return 1000 * (time.perf_counter() - began_s)


def _percentiles(probes: Sequence[float]) -> Row:
    hundredths = statistics.quantiles(probes, n=100)
    return {f"ping_p{at}_ms": hundredths[at - 1] for at in (50, 95, 99)}


def _rss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith("VmRSS"))
    return int(kilobytes) / 1024


def _files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def slopes(rows: Sequence[Row]) -> Row:
    """How each figure moved in an hour."""
    hours = [row["minute"] / HOUR_MIN for row in rows]
    found: Row = {"minute": "slope an hour"}
    for name in rows[0]:
        if name != "minute":
            found[name] = statistics.linear_regression(hours, [row[name] for row in rows]).slope
    return found


def main() -> None:
    parser = rounds.parser("soak", __doc__)
    add = parser.add_argument
    add("--minutes", type=float, default=30.0, help="[30]")
    add("--workers", type=int, default=2, help="[2]")
    add("--interval", type=float, default=15.0, help="seconds of a row [15]")
    add("--hosts", type=int, default=40, help="of each web [40]")
    add("--pages", type=int, default=20_000, help="of each web [20000]")
    options = parser.parse_args()
    if options.minutes * 60 < 2 * options.interval:
        parser.error("give time for two intervals at least")
    spec = WebSpec(hosts=options.hosts, pages=options.pages).smooth()
    rows: list[Row] = []
    with ExitStack() as stack:
        server, client = stack.enter_context(redis_server())
        about = machine(client)
        pin(0, cores()[0])
        webs = stack.enter_context(Webs(client, spec))
        crew = man(stack, server.url, options.workers, "fast", "-a", "stay=true")
        for row in intervals(webs, server, client, crew, options):
            rows.append(row)
            print_table([rounded(row)])
            if any(worker.has_ended for worker in crew):
                raise SystemExit(f"a worker ended:\n{crew[0].tail()}")
        say("stopping the workers")
    publish("soak", about, vars(options), [*rows, slopes(rows)])


if __name__ == "__main__":
    main()
