"""What a worker takes in memory while it crawls, with so many URLs already in the seen filter.

The frontier is told of the URLs before the worker starts, as if others had crawled them, so that
the worker warms its copy of the filter and then crawls a web of its own. The filter has the default
capacity of ten million, whatever it holds.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import redis

from benchmarks import rounds
from benchmarks.common import Row, cores, empty, memory_bytes, numbers, pin
from benchmarks.fleet import CRAWL, man
from benchmarks.seen import HOST, names
from crawlproj.demo import DemoServer, WebSpec
from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Kind, Push
from crawlproj.server import connection
from tests.servers.frontier import push_all
from tests.servers.redis import RedisServer, wait_for

CRAWLED_S = 300.0


async def know(url: str, urls: int) -> None:
    """Mark so many URLs as seen in the crawl that is open."""
    frontier = Frontier(await connection.connect(url), CRAWL, "bench")
    await frontier.attach()
    for batch in names(0, urls):
        await push_all(frontier, [Push(Kind.FILTERED, HOST, 0, b"bench", name) for name in batch])
    await frontier.client.aclose()


def measure(
    options: argparse.Namespace, server: RedisServer, client: redis.Redis, urls: int
) -> Iterator[Row]:
    empty(client)
    spec = WebSpec(hosts=20, pages=options.pages).smooth()
    with DemoServer(spec) as demo:
        pin(demo.pid, cores()[0])
        with ExitStack() as first:  # opens the crawl with the settings of a worker, and leaves
            man(first, server.url, 1, "fast", "-a", "stay=true")
            asyncio.run(know(server.url, urls))
        client.delete(keys.workers(CRAWL, 0))
        with ExitStack() as stack:
            [worker] = man(stack, server.url, 1, "fast", "-a", "stay=true")
            client.lpush(keys.start_urls(CRAWL), *demo.seeds)
            is_done = partial(_has_done, client, spec.pages)
            wait_for(is_done, f"{spec.pages} pages are done", CRAWLED_S)
            worker.stop()
            ended = worker.wait()
            if ended.code:
                raise SystemExit(f"the worker failed:\n{worker.tail()}")
    yield {
        "seen": urls,
        "pages": spec.pages,
        "worker_mb": ended.max_rss_mb,
        "redis_mb": memory_bytes(client) / 1e6,
    }


def _has_done(client: redis.Redis, pages: int) -> bool:
    done = client.hget(keys.counts(CRAWL, 0), "done")
    return int(done or 0) >= pages  # type: ignore[arg-type]


def main() -> None:
    parser = rounds.parser("memory", __doc__)
    parser.add_argument("--seen", type=numbers, default=[0, 1_000_000], help="URLs [0,1e6]")
    parser.add_argument("--pages", type=int, default=2000, help="that the worker crawls [2000]")
    options = parser.parse_args()
    rounds.run("memory", options, options.seen, partial(measure, options), by=["seen"])


if __name__ == "__main__":
    main()
