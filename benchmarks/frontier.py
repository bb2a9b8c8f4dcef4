"""The frontier alone: push, lease and settle, bytes a queued URL, beside scrapy-redis's queue.

Paths of 54 bytes. A push takes a URL as the spider has it to the queue, through the seen filter; a
lease is settled, which scrapy-redis's pop never is. Theirs is measured in turns with ours on a
queue of its own, PriorityQueue and RFPDupeFilter, whose cost hardly grows with its length.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator, Sequence
from functools import partial

import redis
from scrapy import Request, Spider
from scrapy_redis.dupefilter import RFPDupeFilter
from scrapy_redis.queue import PriorityQueue

from benchmarks import rounds
from benchmarks.common import Row, empty, memory_bytes, numbers, redis_calls, redis_cpu_s
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Kind, Lease, Push, Settlement
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.records import encode_link
from crawlproj.server import connection
from crawlproj.urls import Url
from crawlproj.worker.delivery import PUSH_AT_ONCE
from tests.servers.frontier import push_all
from tests.servers.redis import RedisServer

LEASED_AT_ONCE = 64
AHEAD = 2
"""Batches that a worker has leased before those in front of them are settled."""
SAMPLE = 10_000
"""URLs that the rate of pushing is taken from, the last of the filling."""
TAKEN = 10_000
"""URLs that each crew leases and settles."""
FILLERS = 2
"""So that one packs what it pushes while Redis works on what the other has sent."""
MOST_FILLED_TWICE = 100_000
"""Bytes with a referer do not depend on the length of the queue; filling takes long."""
HOSTS = (10, 1000, 100_000, 1_000_000)
USUAL_HOSTS = 1000
MOST_URLS_EVERYWHERE = 1_000_000
REFERER = "http://host-0000001.example/catalogue/item-00000000001.html"
LEVEL = 50
THEIRS = "scrapy-redis"


def addresses(first: int, count: int, hosts: int) -> Iterator[Url]:
    """URLs that are all different, over the hosts in turn."""
    for number in range(first, first + count):
        path = f"/catalogue/section-{number % 97:04}/item-{number:020}.html"
        yield Url(f"http://host-{number % hosts:07}.example", path)


def pushes(urls: Iterator[Url], referer: str) -> Iterator[Push]:
    for url in urls:
        yield Push(Kind.LINK, url.host, LEVEL, encode_link(url.path, 3, referer), str(url))


async def fill(
    frontiers: Sequence[Frontier], first: int, count: int, hosts: int, referer: str
) -> float:
    """Push so many new URLs, each of them by one of these; returns the seconds it took."""
    waiting = batches(pushes(addresses(first, count, hosts), referer), PUSH_AT_ONCE)

    async def push_some(frontier: Frontier) -> None:
        for batch in waiting:
            await push_all(frontier, batch)

    began_s = time.perf_counter()
    await asyncio.gather(*map(push_some, frontiers))
    return time.perf_counter() - began_s


async def drain(frontier: Frontier, count: int) -> None:
    """Lease and settle so many URLs; one does not wait for the other, as in a worker."""
    leased: asyncio.Queue[Sequence[Lease]] = asyncio.Queue(AHEAD)

    async def lease() -> None:
        wanted = count
        while wanted > 0:
            batch = await frontier.lease(min(LEASED_AT_ONCE, wanted))
            if not batch.leases:
                raise SystemExit("nothing is due: the hosts are too few for these workers")
            wanted -= len(batch.leases)
            await leased.put(batch.leases)

    async def settle() -> None:
        settled = 0
        while settled < count:
            some = await leased.get()
            done = [(one.shard, Settlement(one.token, "done", status=200)) for one in some]
            await frontier.settle(done)
            settled += len(some)

    await asyncio.gather(lease(), settle())


async def joined(url: str, plan: Plan, name: str) -> Frontier:
    frontier = Frontier(await connection.connect(url), "bench", name)
    await frontier.open(plan, "bench")
    await frontier.renew(3_600_000, {})
    return frontier


async def measure_ours(
    url: str, client: redis.Redis, urls: int, hosts: int, crews: Sequence[int]
) -> list[Row]:
    """Fill the frontier, with referers too while that is quick, then take from it: a row a crew."""
    each = -(-(AHEAD + 2) * LEASED_AT_ONCE * max(crews) // hosts)
    plan = Plan(per_host=each, seen_capacity=urls)
    filled: Row = {"queued": urls, "hosts": hosts, "bytes_with_referer": None}
    kinds = [("bytes_with_referer", REFERER), ("bytes", "")]
    for name, referer in kinds if urls <= MOST_FILLED_TWICE else kinds[1:]:
        empty(client)
        empty_bytes = memory_bytes(client)
        fillers = [await joined(url, plan, f"filler-{number}") for number in range(FILLERS)]
        filled |= await push_rate(fillers, client, urls, hosts, referer)
        filled[name] = (memory_bytes(client) - empty_bytes) / urls
        for filler in fillers:
            await filler.client.aclose()
    rows = []
    for crew in crews:
        workers = [await joined(url, plan, f"worker-{number}") for number in range(crew)]
        rows.append({**filled, "workers": crew, **await take(client, workers)})
    return rows


async def push_rate(
    frontiers: Sequence[Frontier], client: redis.Redis, urls: int, hosts: int, referer: str
) -> Row:
    """Fill the frontier; the rate at which one client put in the last of it."""
    await fill(frontiers, 0, urls - SAMPLE, hosts, referer)
    cpu_s = redis_cpu_s(client)
    took_s = await fill(frontiers[:1], urls - SAMPLE, SAMPLE, hosts, referer)
    return {
        "pushes_per_s": SAMPLE / took_s,
        "redis_us_per_push": 1e6 * (redis_cpu_s(client) - cpu_s) / SAMPLE,
    }


async def take(client: redis.Redis, frontiers: Sequence[Frontier]) -> Row:
    """The rate at which they lease and settle together, and at which Redis would be full."""
    each = TAKEN // len(frontiers)
    count = each * len(frontiers)
    calls, cpu_s, began_s = redis_calls(client), redis_cpu_s(client), time.perf_counter()
    await asyncio.gather(*(drain(one, each) for one in frontiers))
    took_s = time.perf_counter() - began_s
    redis_s, calls = redis_cpu_s(client) - cpu_s, redis_calls(client) - calls
    for frontier in frontiers:
        await frontier.client.aclose()
    return {
        "leases_per_s": count / took_s,
        "redis_us_per_lease": 1e6 * redis_s / count,
        "redis_busy": redis_s / took_s,
        "full_at_leases_per_s": count / redis_s,
        "full_at_calls_per_s": calls / redis_s,
    }


def measure_theirs(client: redis.Redis, urls: int, hosts: int) -> Row:
    """scrapy-redis: request_seen and push, then pop."""
    empty(client)
    empty_bytes = memory_bytes(client)
    spider = Spider("bench")
    queue = PriorityQueue(client, spider, "%(spider)s:requests")
    seen = RFPDupeFilter(client, "bench:dupefilter")
    began_s = time.perf_counter()
    for url in addresses(0, urls, hosts):
        request = Request(str(url), priority=LEVEL, meta={"depth": 3})
        if not seen.request_seen(request):
            queue.push(request)
    pushed_s = time.perf_counter() - began_s
    used_bytes = memory_bytes(client) - empty_bytes
    began_s = time.perf_counter()
    while queue.pop():
        pass
    return {
        "queued": urls,
        "hosts": hosts,
        "workers": THEIRS,
        "pushes_per_s": urls / pushed_s,
        "bytes": used_bytes / urls,
        "leases_per_s": urls / (time.perf_counter() - began_s),
    }


def batches(items: Iterator[Push], size: int) -> Iterator[list[Push]]:
    batch: list[Push] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def with_ratios(rows: Sequence[Row]) -> list[Row]:
    """Each of ours beside theirs of the same queue and hosts."""
    theirs = {(row["asked"], row["hosts"]): row for row in rows if row["workers"] == THEIRS}
    for row in rows:
        peer = theirs[row["asked"], row["hosts"]]
        if row is not peer:
            row["push_ratio"] = row["pushes_per_s"] / peer["pushes_per_s"]
            row["lease_ratio"] = row["leases_per_s"] / peer["leases_per_s"]
    return [{name: value for name, value in row.items() if name != "asked"} for row in rows]


def measure(
    options: argparse.Namespace, server: RedisServer, client: redis.Redis, case: tuple[int, int]
) -> Iterator[Row]:
    urls, hosts = case
    for row in asyncio.run(measure_ours(server.url, client, urls, hosts, options.workers)):
        yield {"asked": urls, **row}
    yield {"asked": urls, **measure_theirs(client, options.peer_urls, hosts)}


def cases(options: argparse.Namespace) -> list[tuple[int, int]]:
    """A queue of each length over each number of hosts that it can fill; the longest, which takes
    minutes to fill, over one number of hosts alone unless hosts are named."""
    usual = [
        (urls, hosts)
        for urls in options.urls
        for hosts in options.hosts or ([USUAL_HOSTS] if urls > MOST_URLS_EVERYWHERE else HOSTS)
        if hosts <= urls
    ]
    return list(dict.fromkeys(usual))


def _urls(text: str) -> list[int]:
    sizes = numbers(text)
    if min(sizes) < 2 * SAMPLE:
        raise argparse.ArgumentTypeError(f"{text}: give {2 * SAMPLE} or more")
    return sizes


def main() -> None:
    parser = rounds.parser("frontier", __doc__)
    add = parser.add_argument
    sizes = [100_000, 1_000_000, 10_000_000]
    add("--urls", type=_urls, default=sizes, help="queued, up to 5e7 [1e5,1e6,1e7]")
    add("--hosts", type=numbers, default=[], help="[10,1000,1e5,1e6; 1000 from 1e7 URLs on]")
    add("--workers", type=numbers, default=[1, 10, 100], help="simulated in a process [1,10,100]")
    add("--peer-urls", type=int, default=5000, help="through scrapy-redis, each time [5000]")
    options = parser.parse_args()
    rounds.run(
        "frontier",
        options,
        cases(options),
        partial(measure, options),
        by=["asked", "hosts", "workers"],
        finish=with_ratios,
        on_crawlers_core=True,
    )


if __name__ == "__main__":
    main()
