"""What each output beside rows costs a worker: off, on, and all of them on, by turns.

    python -m benchmarks.output [--seconds 8] [--rounds 3] [--cores 1] [links archive …]

One worker on a web of pages of 10 KB with 57 links each, on one core or on two; the origin and
Redis have theirs, too, so on a machine of two cores they share.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from statistics import median

from benchmarks.common import end_cleanly, redis_server
from benchmarks.fleet import crawl_for_a_while
from crawlproj.demo import WebSpec

CASES = {
    "off": {},
    "links": {"CRAWL_LINKS": True},
    "attributes": {"CRAWL_ATTRIBUTES": True},
    "archive": {"CRAWL_ARCHIVE": True},
    "archive without digests": {"CRAWL_ARCHIVE": True, "CRAWL_ARCHIVE_DEDUP": False},
    "store": {"CRAWL_STORE": "sqlite"},
}
ALL = "all"
WEB = WebSpec(hosts=20, pages=40_000, depth=6, page_bytes=10_700)

Figures = tuple[float, float, float]
"""Pages a second, and milliseconds of processor time a page: of the worker, and of Redis."""


def measure(names: list[str], rounds: int, seconds: float) -> dict[str, list[Figures]]:
    """By turns, so that all have the same machine."""
    every = {name: value for case in CASES.values() for name, value in case.items()}
    cases = {**CASES, ALL: every | {"CRAWL_ARCHIVE_DEDUP": True}}
    found: dict[str, list[Figures]] = {name: [] for name in names}
    with redis_server() as (server, client):
        for _ in range(rounds):
            for name in names:
                ran, _ = crawl_for_a_while(
                    WEB,
                    server,
                    client,
                    workers=1,
                    seconds=seconds,
                    profile="fast",
                    settings=cases[name],
                )
                costs = ran.costs()
                ms = costs["cpu_ms_per_page"], costs["redis_cpu_ms_per_page"]
                found[name].append((ran.pages_per_s, *ms))
    return found


def table(found: dict[str, list[Figures]]) -> Iterator[str]:
    yield "| output | pages/s | against off | ms of CPU a page | against off | of Redis |"
    yield "|---|---|---|---|---|---|"
    off_pages, off_ms, _ = (median(column) for column in zip(*found["off"], strict=True))
    for name, rows in found.items():
        pages, ms, redis_ms = (median(column) for column in zip(*rows, strict=True))
        ratios = f"{pages / off_pages:.2f} × | {ms:.2f} | {ms / off_ms:.2f} ×"
        yield f"| {name} | {pages:,.0f} | {ratios} | {redis_ms:.3f} |"


def main() -> None:
    end_cleanly()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="OUTPUT", help=", ".join([*CASES, ALL]))
    parser.add_argument("--seconds", type=float, default=8.0, help="of each crawl")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, help="for all of it; all there are if not given")
    options = parser.parse_args()
    if unknown := set(options.names) - {*CASES, ALL}:
        parser.error(f"no such output: {', '.join(sorted(unknown))}")
    if options.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    names = list(dict.fromkeys(["off", *(options.names or [*CASES, ALL])]))
    for line in table(measure(names, options.rounds, options.seconds)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
