"""The seen filter beside a Redis set of fingerprints: memory, rate, false positives.

The filter is sized for the number of URLs, as the published table did (97 % smaller than a set at
50,000). Rates are of new URLs going in, in batches of 500 for both, and of a worker's own copy
being asked, which costs no round trip. False positives are counted over URLs that never went in.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import redis

from benchmarks import rounds
from benchmarks.common import Row, empty, numbers
from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Kind, Push
from crawlproj.frontier.plan import Plan
from crawlproj.server import connection
from crawlproj.worker.delivery import PUSH_AT_ONCE
from tests.servers.frontier import push_all
from tests.servers.redis import RedisServer

HOST = "http://host.example"
PROBES = 200_000
SET = "bench:dupefilter"


def names(first: int, count: int) -> Iterator[list[str]]:
    """Different URLs, in batches."""
    for start in range(first, first + count, PUSH_AT_ONCE):
        end = min(start + PUSH_AT_ONCE, first + count)
        yield [f"{HOST}/catalogue/item-{number:012}.html" for number in range(start, end)]


async def measure_filter(url: str, client: redis.Redis, urls: int, error_rate: float) -> Row:
    empty(client)
    frontier = Frontier(await connection.connect(url), "bench", "worker")
    await frontier.open(Plan(seen_capacity=urls, seen_error_rate=error_rate), "bench")
    began_s = time.perf_counter()
    for batch in names(0, urls):
        # Marked as seen and not queued: what is measured is the filter.
        await push_all(frontier, [Push(Kind.FILTERED, HOST, 0, b"bench", name) for name in batch])
    took_s = time.perf_counter() - began_s
    bits: Any = client.strlen(keys.seen_prefix("bench", 0) + "0")
    row = {"urls": urls, "filter_mb": bits / 1e6, "filter_adds_per_s": urls / took_s}
    row |= _probe(frontier, urls)
    await frontier.client.aclose()
    return row


def _probe(frontier: Frontier, urls: int) -> Row:
    began_s = time.perf_counter()
    wrong = sum(frontier.seen(HOST, name) for batch in names(urls, PROBES) for name in batch)
    asked_s = time.perf_counter() - began_s
    return {"asked_per_s": PROBES / asked_s, "measured_error": wrong / PROBES}


def measure_set(client: redis.Redis, urls: int) -> Row:
    empty(client)
    began_s = time.perf_counter()
    for batch in names(0, urls):
        with client.pipeline(transaction=False) as pipe:
            for name in batch:
                pipe.sadd(SET, hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest())
            pipe.execute()
    took_s = time.perf_counter() - began_s
    used: Any = client.memory_usage(SET, samples=0)
    return {"set_mb": used / 1e6, "set_adds_per_s": urls / took_s}


def measure(
    options: argparse.Namespace, server: RedisServer, client: redis.Redis, urls: int
) -> Iterator[Row]:
    theirs = measure_set(client, urls)
    ours = asyncio.run(measure_filter(server.url, client, urls, options.error_rate))
    smaller = 1 - ours["filter_mb"] / theirs["set_mb"]
    yield {**ours, **theirs, "smaller_by_percent": 100 * smaller}


def main() -> None:
    parser = rounds.parser("seen", __doc__)
    sizes = [10_000, 50_000, 100_000, 1_000_000]
    parser.add_argument("--urls", type=numbers, default=sizes, help="up to 1e7 [1e4,5e4,1e5,1e6]")
    parser.add_argument("--error-rate", type=float, default=0.001, help="[0.001]")
    options = parser.parse_args()
    rounds.run(
        "seen", options, options.urls, partial(measure, options), by=["urls"], on_crawlers_core=True
    )


if __name__ == "__main__":
    main()
