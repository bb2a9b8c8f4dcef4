"""How long it takes to look at a very large crawl, and what of Redis's time that costs.

    python -m benchmarks.watch                       # 1 million hosts, 10 million URLs, 100 workers
    python -m benchmarks.watch --hosts 10000 --urls 100000

Makes a frontier of that size on a Redis of its own (queues as the scripts would leave them, written
straight into Redis: it is only looked at), then asks status, dashboard and metrics, and the same of
an empty crawl: medians in ms; and what share of its time Redis is busy while three browsers look.
Needs about 1 GB for the full size.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common import Row, machine, publish, say
from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.wire import pack
from crawlproj.operate import status
from crawlproj.operate.dashboard.host_search import UNWANTED_S
from crawlproj.server.connection import connect
from tests.servers.dashboard import DashboardProcess
from tests.servers.redis import RedisServer

LARGE, EMPTY = "large", "empty"
AT_ONCE = 2000
LEVEL = 50
READY = 1
LOOKS = 20
FORGOTTEN_S = 0.6
MINUTE_MS = 60_000


async def make(client: Any, crawl: str, hosts: int, urls: int, workers: int) -> None:
    """Begin a crawl, and fill it."""
    frontier = Frontier(client, crawl, "w0")
    await frontier.open(Plan(seen_capacity=max(1000, urls)), "run")
    for number in range(workers):
        told = {"host": f"machine{number}", "pid": number, "pages": 9, "timeout_ms": MINUTE_MS}
        told["recent"] = [[1.0, 200, "", f"http://h{n}.example/page/{number}"] for n in range(6)]
        await frontier.shards[0].renew(f"w{number}", 60 * MINUTE_MS, told)
    for start in range(0, hosts, AT_ONCE):
        await _fill(client, crawl, range(start, min(start + AT_ONCE, hosts)), urls // hosts)
    counts = {"discovered": urls, "queued": urls}
    if hosts:
        await client.hset(keys.counts(crawl, 0), mapping=counts)


async def _fill(client: Any, crawl: str, numbers: range, urls_a_host: int) -> None:
    pipeline = client.pipeline(transaction=False)
    names = [f"http://h{number}.example" for number in numbers]
    record = b"".join(map(pack, (LEVEL, 0, False, 3, READY)))
    pipeline.hset(keys.hosts(crawl, 0), mapping=dict.fromkeys(names, record))
    pipeline.zadd(keys.ready(crawl, 0), dict.fromkeys(names, LEVEL))
    for name in names:
        entries = [b"\0\0/some/path/to/a/page/%d.html" % n for n in range(urls_a_host)]
        pipeline.rpush(keys.queue(crawl, 0, LEVEL, name), *entries)
    await pipeline.execute()


async def timed(look: Callable[[], Awaitable[Any]]) -> float:
    """The median of some looks, in ms; each later than an answer is remembered for others."""
    took = []
    for _ in range(LOOKS):
        await asyncio.sleep(FORGOTTEN_S)
        began_s = time.perf_counter()
        await look()
        took.append((time.perf_counter() - began_s) * 1000)
    return statistics.median(took)


async def busy_s(client: Any) -> float:
    """CPU that Redis has used so far."""
    info = await client.info("cpu")
    return float(info["used_cpu_user_main_thread"]) + float(info["used_cpu_sys_main_thread"])


async def watched_share(dashboard: DashboardProcess, client: Any, seconds: float) -> float:
    """Redis's CPU while three browsers look, as a share of the time."""
    readers = [
        await asyncio.create_subprocess_exec(
            "curl", "-sN", f"{dashboard.url}events?crawl={LARGE}", stdout=asyncio.subprocess.DEVNULL
        )
        for _ in range(3)
    ]
    await asyncio.sleep(1)
    before_s, began_s = await busy_s(client), time.perf_counter()
    await asyncio.sleep(seconds)
    share = (await busy_s(client) - before_s) / (time.perf_counter() - began_s)
    for reader in readers:
        reader.kill()
        await reader.wait()
    return share


async def run(options: argparse.Namespace, folder: Path, server: RedisServer) -> list[Row]:
    """A row for each way to look, of the large crawl and of an empty one."""
    client = await connect(server.url)
    with DashboardProcess(folder, server.url) as dashboard:
        ask = partial(asyncio.to_thread, dashboard.ask)
        await make(client, EMPTY, 0, 0, 1)
        metrics: Row = {"look": "/metrics", "large_ms": None}
        metrics["empty_ms"] = await timed(partial(ask, "/metrics"))
        began_s = time.perf_counter()
        await make(client, LARGE, options.hosts, options.urls, options.workers)
        memory = (await client.info("memory"))["used_memory"] / 1e6
        say(f"made in {time.perf_counter() - began_s:.0f} s, {memory:,.0f} MB")
        looks: dict[str, Callable[[str], Awaitable[Any]]] = {
            "status": lambda crawl: status.read(Frontier(client, crawl, "look"), in_detail=True),
            "/api/status": lambda crawl: ask(f"/api/status/{crawl}"),
            "/api/hosts": lambda crawl: ask(f"/api/hosts/{crawl}?q=h77"),
        }
        rows: list[Row] = []
        for name, look in looks.items():
            large_ms, empty_ms = [await timed(partial(look, crawl)) for crawl in (LARGE, EMPTY)]
            rows.append({"look": name, "large_ms": large_ms, "empty_ms": empty_ms})
        while f'crawl="{LARGE}"'.encode() not in (await ask("/metrics")).body:
            await asyncio.sleep(1)  # new crawls are found now and then
        metrics["large_ms"] = await timed(partial(ask, "/metrics"))
        await asyncio.sleep(2 * UNWANTED_S)  # until nobody searches any more
        share = await watched_share(dashboard, client, options.seconds)
    await client.aclose()
    busy = {"look": "three browsers", "redis_share": f"{share:.2%}"}
    return [*rows, metrics, busy]


def main() -> None:
    as_written = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_written)
    parser.add_argument("--hosts", type=int, default=1_000_000)
    parser.add_argument("--urls", type=int, default=10_000_000)
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=15)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as name,
        RedisServer(Path(name)) as server,
        server.client() as client,
    ):
        about = machine(client)
        rows = asyncio.run(run(options, Path(name), server))
        publish("watch", about, vars(options), rows)


if __name__ == "__main__":
    main()
