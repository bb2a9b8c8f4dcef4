"""Deletes a crawl's state, piece by piece, so that a large one blocks nobody."""

from __future__ import annotations

from crawlproj import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.wire import unpack

AT_ONCE = 500
MOST_LAYERS = 64


async def purge(frontier: Frontier) -> None:
    """Forget the crawl: queues, leases, ledger, seen filter, dead letters, waiting seeds."""
    client, crawl = frontier.client, frontier.crawl
    for shard in frontier.shards:
        number = shard.number
        await _unlink_hosts(frontier, number)
        for worker in await client.zrange(keys.workers(crawl, number), 0, -1):
            await client.unlink(keys.leased_prefix(crawl, number) + worker.decode())
        seen = keys.seen_prefix(crawl, number)
        await client.unlink(*(f"{seen}{layer}" for layer in range(MOST_LAYERS)))
        await client.unlink(*keys.vector(crawl, number))
    seeds = keys.start_urls(crawl)
    for key in (seeds, keys.rejected(seeds), keys.taking(seeds)):
        await client.unlink(key)


async def _unlink_hosts(frontier: Frontier, number: int) -> None:
    hosts = keys.hosts(frontier.crawl, number)
    queue = keys.queue_prefix(frontier.crawl, number)
    names: list[str] = []
    async for host, packed in frontier.client.hscan_iter(hosts, count=AT_ONCE):
        levels = unpack(packed).get(b"levels") or []
        names += [f"{queue}{level}:{host.decode()}" for level in levels]
        names.append(keys.robots(frontier.crawl, number, host.decode()))
        if len(names) >= AT_ONCE:
            await frontier.client.unlink(*names)
            names = []
    if names:
        await frontier.client.unlink(*names)
