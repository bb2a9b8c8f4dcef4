"""How long it takes to delete queued URLs, and for how long Redis does nothing else meanwhile.

    python -m benchmarks.drop                      # 3 million URLs, a third of them at one host
    python -m benchmarks.drop --urls 1e7

Half of the URLs are deleted by a pattern, which takes a look at each, then what is left of the
large host, then all. `longest_ms` is the slowest call of a script or command meanwhile, by Redis's
own log of slow ones; 0 where none took a millisecond. On a busy machine that is mostly the time in
which Redis had no core: `redis_ms_per_call` is what a call took of its processor time, on average.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import time
from collections.abc import Callable
from typing import Any

from benchmarks.common import Row, empty, machine, numbers, publish, redis_server
from benchmarks.watch import busy_s
from crawlproj.frontier import dropping, keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.records import encode_link
from crawlproj.frontier.wire import pack
from crawlproj.server.connection import connect

CRAWL, LEVEL, READY = "bench", 50, 1
LARGE = "http://large.example"
HOSTS = 1000
AT_ONCE = 1000
SLOW_US = 1000


async def make(client: Any, urls: int) -> Frontier:
    """A crawl with so many queued, written straight into Redis as the scripts would leave them."""
    frontier = Frontier(client, CRAWL, "w")
    await frontier.open(Plan(seen_capacity=1000), "run")
    await _fill(client, LARGE, urls // 3)
    for number in range(HOSTS):
        await _fill(client, f"http://h{number}.example", (urls - urls // 3) // HOSTS)
    queued = urls // 3 + HOSTS * ((urls - urls // 3) // HOSTS)
    await client.hset(keys.counts(CRAWL, 0), mapping={"discovered": queued, "queued": queued})
    return frontier


async def _fill(client: Any, host: str, urls: int) -> None:
    record = b"".join(map(pack, (LEVEL, 0, False, 0, READY)))
    await client.hset(keys.hosts(CRAWL, 0), host, record)
    await client.zadd(keys.ready(CRAWL, 0), {host: LEVEL})
    queue = keys.queue(CRAWL, 0, LEVEL, host)
    for start in range(0, urls, AT_ONCE):
        paths = (f"/catalogue/item-{n:012}.html" for n in range(start, min(start + AT_ONCE, urls)))
        await client.rpush(queue, *(encode_link(path, 3, "") for path in paths))


async def timed(
    frontier: Frontier, what: str, host: str | None, is_doomed: Callable[[str], bool] | None
) -> Row:
    client = frontier.client
    await client.config_set("slowlog-log-slower-than", SLOW_US)
    await client.config_set("slowlog-max-len", 100_000)
    await client.slowlog_reset()
    began_s, gone, calls, cpu_s = time.perf_counter(), 0, 0, await busy_s(client)
    async for some in dropping.drop(frontier, host, is_doomed):
        gone, calls = gone + some, calls + 1
    cpu_s = await busy_s(client) - cpu_s
    took_s = time.perf_counter() - began_s
    longest_us = max((one["duration"] for one in await client.slowlog_get(-1)), default=0)
    counts = await frontier.counts()
    assert counts["queued"] + counts["filtered:deleted"] == counts["discovered"]
    return {
        "deleted": what,
        "urls": gone,
        "seconds": took_s,
        "longest_ms": longest_us / 1000,
        "redis_ms_per_call": 1000 * cpu_s / max(1, calls),
    }


async def run(url: str, urls: int) -> list[Row]:
    client = await connect(url)
    frontier = await make(client, urls)
    odd = re.compile(r"[13579]\.html$")
    rows = [
        await timed(frontier, "by a pattern", None, lambda url: bool(odd.search(url))),
        await timed(frontier, "of the large host", LARGE, None),
        await timed(frontier, "all the others", None, None),
    ]
    await client.aclose()
    return rows


def main() -> None:
    as_written = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_written)
    parser.add_argument("--urls", type=numbers, default=[3_000_000])
    options = parser.parse_args()
    with redis_server() as (server, client):
        about, rows = machine(client), []
        for urls in options.urls:
            empty(client)
            rows += [{"queued": urls, **row} for row in asyncio.run(run(server.url, urls))]
    publish("drop", about, vars(options), rows)


if __name__ == "__main__":
    main()
