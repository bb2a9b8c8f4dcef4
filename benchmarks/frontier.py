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
from itertools import product

import redis
from scrapy import Request, Spider
from scrapy_redis.dupefilter import RFPDupeFilter
from scrapy_redis.queue import PriorityQueue

from benchmarks.common import (
    Row,
    cores,
    empty,
    machine,
    medians,
    memory_bytes,
    numbers,
    pin,
    publish,
    redis_cpu_s,
    redis_server,
    say,
)
from crawlproj import connection
from crawlproj.delivery import PUSH_AT_ONCE
from crawlproj.frontier.frontier import Frontier, Limits
from crawlproj.frontier.shard import Kind, Push, Settlement
from crawlproj.records import encode_link
from crawlproj.urls import Url

LEASED_AT_ONCE = 64
SAMPLE = 10_000
"""URLs that the rate of pushing is taken from, the last of the filling."""
TAKEN = 5_000
"""URLs that each crew leases and settles."""
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


async def fill(frontier: Frontier, first: int, count: int, hosts: int, referer: str) -> float:
    """Push so many new URLs; returns the seconds it took."""
    began_s = time.perf_counter()
    for batch in batches(pushes(addresses(first, count, hosts), referer), PUSH_AT_ONCE):
        await frontier.push(batch)
    return time.perf_counter() - began_s


async def drain(frontier: Frontier, count: int) -> None:
    """Lease and settle so many URLs."""
    while count > 0:
        batch = await frontier.lease(min(LEASED_AT_ONCE, count))
        if not batch.leases:
            raise SystemExit("nothing is due: the hosts are too few for these workers")
        done = [
            (lease.shard, Settlement(lease.token, "done", status=200)) for lease in batch.leases
        ]
        await frontier.settle(done)
        count -= len(batch.leases)


async def joined(url: str, limits: Limits, name: str) -> Frontier:
    frontier = Frontier(await connection.connect(url), "bench", name)
    await frontier.open(limits, {}, "bench")
    await frontier.renew(3_600_000, {})
    return frontier


async def measure(
    url: str, client: redis.Redis, urls: int, hosts: int, crews: Sequence[int]
) -> list[Row]:
    """Fill the frontier with referers and without, then take from it, a row for each crew."""
    each = max(1, 4 * LEASED_AT_ONCE * max(crews) // hosts)
    limits = Limits(per_host=each, seen_capacity=urls)
    filled: Row = {"queued": urls, "hosts": hosts}
    for name, referer in (("bytes_with_referer", REFERER), ("bytes", "")):
        empty(client)
        empty_bytes = memory_bytes(client)
        frontier = await joined(url, limits, "filler")
        filled |= await push_rate(frontier, client, urls, hosts, referer)
        filled[name] = (memory_bytes(client) - empty_bytes) / urls
        await frontier.client.aclose()
    rows = []
    for crew in crews:
        workers = [await joined(url, limits, f"worker-{number}") for number in range(crew)]
        rows.append({**filled, "workers": crew, **await take(client, workers)})
    return rows


async def push_rate(
    frontier: Frontier, client: redis.Redis, urls: int, hosts: int, referer: str
) -> Row:
    """Fill the frontier; the rate at which the last of it went in."""
    await fill(frontier, 0, urls - SAMPLE, hosts, referer)
    cpu_s = redis_cpu_s(client)
    took_s = await fill(frontier, urls - SAMPLE, SAMPLE, hosts, referer)
    return {
        "pushes_per_s": SAMPLE / took_s,
        "redis_us_per_push": 1e6 * (redis_cpu_s(client) - cpu_s) / SAMPLE,
    }


async def take(client: redis.Redis, frontiers: Sequence[Frontier]) -> Row:
    """The rate at which they lease and settle together."""
    each = TAKEN // len(frontiers)
    count = each * len(frontiers)
    cpu_s, began_s = redis_cpu_s(client), time.perf_counter()
    await asyncio.gather(*(drain(one, each) for one in frontiers))
    took_s = time.perf_counter() - began_s
    for frontier in frontiers:
        await frontier.client.aclose()
    return {
        "leases_per_s": count / took_s,
        "redis_us_per_lease": 1e6 * (redis_cpu_s(client) - cpu_s) / count,
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


def main() -> None:
    options = _parser().parse_args()
    rounds: list[Row] = []
    with redis_server() as (server, client):
        about = machine(client)
        pin(0, cores()[1])
        for number in range(options.rounds):
            for urls, hosts in product(options.urls, options.hosts):
                say(f"round {number + 1} of {options.rounds}: {urls:,} URLs over {hosts:,} hosts")
                found = asyncio.run(measure(server.url, client, urls, hosts, options.workers))
                found.append(measure_theirs(client, options.peer_urls, hosts))
                rounds += [{"asked": urls, **row} for row in found]
    rows = with_ratios(medians(rounds, "asked", "hosts", "workers"))
    publish("frontier", {**about, "rounds": options.rounds}, rows)


def _urls(text: str) -> list[int]:
    sizes = numbers(text)
    if min(sizes) < 2 * SAMPLE:
        raise argparse.ArgumentTypeError(f"{text}: give {2 * SAMPLE} or more")
    return sizes


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.frontier", description=__doc__)
    add = parser.add_argument
    add("--urls", type=_urls, default=[100_000, 1_000_000], help="queued [1e5,1e6]")
    add("--hosts", type=numbers, default=[10, 1000, 100_000], help="[10,1000,1e5]")
    add("--workers", type=numbers, default=[1, 8], help="simulated in one process [1,8]")
    add("--peer-urls", type=int, default=5000, help="through scrapy-redis, each time [5000]")
    add("--rounds", type=int, default=1, help="[1]")
    return parser


if __name__ == "__main__":
    main()
