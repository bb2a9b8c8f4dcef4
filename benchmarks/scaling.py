"""Workers add up: more workers, more connections and more cores, on one origin.

`workers`: 1 … 20 workers with few connections each, on an origin that takes 100 ms for every page
over many hosts, so that they wait most of the time, as they would for real servers. They add up
until the cores are full, unless the shared frontier keeps them apart. `modes`: one web to depth 1,
2 and 3, by one worker with one connection (sequential), one with many (parallel) and a fleet
(distributed), from the first request to the last. `one_host`: a single host that may have eight
connections, used by one worker with all of them, by two with four and by four with two: what one
worker leases ahead must not keep the others from them. `cores`: workers that never wait, on an
origin without latency. Where they share a core, each page costs more, since processes that take
turns evict each other from its caches; so as many workers that share nothing, each with a crawl of
its own, stand beside them: `cpu_of_apart` is what the shared frontier adds.

Workers share the crawlers' cores; how busy those were stands beside each row.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

import redis

from benchmarks import rounds
from benchmarks.common import Row, cores, empty, numbers, pin
from benchmarks.fleet import CRAWL, WARM_UP_S, crawl_for_a_while, man
from crawlproj.demo import DemoServer, WebSpec
from crawlproj.frontier import keys
from crawlproj.operate.request_log import most_concurrent
from tests.servers.redis import RedisServer

APART = ", apart"
CONNECTIONS = 8
"""Of the parallel mode, and of all workers of the distributed one together."""
FLEET = 4


class Case(NamedTuple):
    table: str
    setup: str
    workers: int
    concurrency: int
    depth: int = 0
    apart: bool = False

    def __str__(self) -> str:
        return f"{self.table} {self.setup}"


def cases(options: argparse.Namespace) -> list[Case]:
    """Every row of the tables."""
    pairs = [(workers, few) for few in (4, 8) for workers in (1, 2, 3)]
    pairs += [(workers, 4) for workers in options.workers if workers > 3]
    found = [Case("workers", f"{n} × {few}", n, few) for n, few in pairs]
    for depth in options.depths:
        modes = (("sequential", 1, 1), ("parallel", 1, CONNECTIONS), ("distributed", FLEET, 2))
        found += [Case("modes", f"{mode}, depth {depth}", n, c, depth) for mode, n, c in modes]
    sizes = [1 << power for power in range(CONNECTIONS.bit_length() - 1)]
    found += [Case("one_host", f"{n} × {CONNECTIONS // n}", n, CONNECTIONS // n) for n in sizes]
    for n in options.busy:
        found += [Case("cores", f"{n} busy", n, 32)]
        found += [Case("cores", f"{n} busy{APART}", n, 32, apart=True)] if n > 1 else []
    return [case for case in found if case.table in options.tables]


def web(case: Case, options: argparse.Namespace) -> WebSpec:
    """More pages than the workers could fetch in the time."""
    if case.table == "modes":
        return WebSpec(
            hosts=1, pages=options.mode_pages, depth=3, latency_s=options.latency / 10
        ).smooth()
    latency_s = 0.0 if case.table == "cores" else options.latency
    hosts = options.hosts
    if case.table == "one_host":
        latency_s, hosts = latency_s / 2, 1
    most_per_s = min(options.most_per_s, case.workers * case.concurrency / max(latency_s, 0.001))
    each = max(20, int(1.2 * most_per_s * (options.seconds + 2 * WARM_UP_S) / hosts))
    depth = 4 if hosts == 1 else 3
    spec = WebSpec(hosts=hosts, pages=hosts * each, depth=depth, latency_s=latency_s)
    return spec.smooth()


def measure(
    options: argparse.Namespace, server: RedisServer, client: redis.Redis, case: Case
) -> Iterator[Row]:
    if case.table == "modes":
        yield _to_the_end(web(case, options), server, client, case)
        return
    per_host = CONNECTIONS if case.table == "one_host" else 4
    ran, _ = crawl_for_a_while(
        web(case, options),
        server,
        client,
        workers=case.workers,
        seconds=options.seconds,
        profile="fast",
        settings={"CONCURRENT_REQUESTS": case.concurrency, "POLITENESS_PER_HOST": per_host},
        apart=case.apart,
    )
    repeated = len(ran.pages) - len({page.url for page in ran.pages})
    yield {
        **_named(case),
        "pages": len(ran.pages),
        "pages_per_s": ran.pages_per_s,
        "repeated": None if case.apart else repeated,
        "connections": sum(page.end_s - page.start_s for page in ran.pages) / ran.seconds,
        "most_at_once": max(most_concurrent(ran.pages).values()),
        **ran.costs(),
    }


def _named(case: Case) -> Row:
    names = ("table", "setup", "workers", "concurrency")
    return {name: getattr(case, name) for name in names}


def _to_the_end(spec: WebSpec, server: RedisServer, client: redis.Redis, case: Case) -> Row:
    """A crawl to a depth, by workers that are all up when its seed arrives."""
    empty(client)
    with ExitStack() as stack:
        demo = stack.enter_context(DemoServer(spec))
        pin(demo.pid, cores()[0])
        arguments = f"-a depth={case.depth} -a per_host={case.workers * case.concurrency}"
        crew = man(
            *(stack, server.url, case.workers, "fast", *arguments.split()),
            CONCURRENT_REQUESTS=case.concurrency,
        )
        client.lpush(keys.start_urls(CRAWL), *demo.seeds)
        if any(worker.wait().code for worker in crew):
            raise SystemExit(f"a worker failed:\n{crew[0].tail()}")
        log = demo.requests()
    start_s, end_s = min(one.start_s for one in log), max(one.end_s for one in log)
    return {
        **_named(case),
        "pages": len(log),
        "pages_per_s": len(log) / (end_s - start_s),
        "ms": 1000 * (end_s - start_s),
        "repeated": len(log) - len({one.url for one in log}),
        "cpu_ms_per_page": 1000 * sum(one.cpu_s(start_s, end_s) for one in crew) / len(log),
    }


def with_gains(rows: Sequence[Row]) -> list[Row]:
    """Each beside one worker with as many connections, in its table, or with all of them on one
    host, and beside as many apart."""
    alone = {(row["table"], row["concurrency"]): row for row in rows if row["workers"] == 1}
    apart = {row["setup"].removesuffix(APART): row for row in rows if row["setup"].endswith(APART)}
    for row in rows:
        if beside := apart.get(row["setup"]):
            row["cpu_of_apart"] = row["cpu_ms_per_page"] / beside["cpu_ms_per_page"]
        each = CONNECTIONS if row["table"] == "one_host" else row["concurrency"]
        single = alone.get((row["table"], each))
        if single and row["table"] != "modes":
            row["times_one_worker"] = row["pages_per_s"] / single["pages_per_s"]
            row["cpu_of_one_worker"] = row["cpu_ms_per_page"] / single["cpu_ms_per_page"]
    return list(rows)


def main() -> None:
    parser = rounds.parser("scaling", __doc__)
    add = parser.add_argument
    tables = ["workers", "modes", "one_host", "cores"]
    add("--tables", nargs="+", choices=tables, default=tables, help="[all]")
    add("--workers", type=numbers, default=[1, 5, 8, 10, 15, 20], help="[5,8,10,15,20]")
    add("--depths", type=numbers, default=[1, 2, 3], help="of the modes [1,2,3]")
    add("--busy", type=numbers, default=[1, 2], help="workers that never wait [1,2]")
    add("--hosts", type=int, default=200, help="[200]")
    add("--mode-pages", type=int, default=300, help="of the web of the modes [300]")
    add("--most-per-s", type=int, default=1500, help="pages that the cores could bear [1500]")
    add(
        "--latency",
        type=float,
        default=0.1,
        help="seconds; half of it for one host, a tenth for the modes [0.1]",
    )
    add("--seconds", type=float, default=6.0, help="measured [6]")
    options = parser.parse_args()
    rounds.run(
        "scaling",
        options,
        cases(options),
        partial(measure, options),
        by=["table", "setup"],
        finish=with_gains,
    )


if __name__ == "__main__":
    main()
