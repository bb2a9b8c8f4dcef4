"""Deletes a crawl's state, piece by piece, so that a large one blocks nobody. Keys that are of
another type than they should be are deleted all the same."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from redis.exceptions import ResponseError

from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.history import Span
from crawlproj.frontier.hosts import read_host
from crawlproj.frontier.levels import FIRST, HIGHEST, LOWEST, MOVED, REVISIT, seed_level
from crawlproj.frontier.outcome_records import NAMES
from crawlproj.frontier.readings import MOST_LAYERS

AT_ONCE = 500
MOST_BUCKETS = 100_000_000
"""Of outcomes; a number beyond is none of ours."""


async def purge(frontier: Frontier, on_host: Callable[[], None]) -> None:
    """Forget the crawl: queues, leases, ledger, seen filter, dead letters. Tells of each host."""
    client, crawl = frontier.client, frontier.crawl
    for number in range(frontier.plan.shards):
        with suppress(ResponseError):
            await _unlink_hosts(frontier, number, on_host)
        for worker in await _workers(frontier, number):
            await client.unlink(keys.leased_prefix(crawl, number).encode() + worker)
        for pattern in await _fields(frontier, keys.patterns(crawl, number)):
            await client.unlink(keys.set_aside_prefix(crawl, number).encode() + pattern)
        for group in await _fields(frontier, keys.groups(crawl, number)):
            await client.unlink(keys.line_prefix(crawl, number).encode() + group)
        seen = keys.seen_prefix(crawl, number)
        await client.unlink(*(f"{seen}{layer}" for layer in range(MOST_LAYERS)))
        await _unlink_outcomes(frontier, number)
        past = keys.history_prefix(crawl, number)
        await client.unlink(*(f"{past}{span.step_s}" for span in Span))
        await client.unlink(*keys.vector(crawl, number))


async def host_count(frontier: Frontier) -> int:
    """How many hosts there are to forget."""
    count = 0
    for number in range(frontier.plan.shards):
        with suppress(ResponseError):
            count += await frontier.client.hlen(keys.hosts(frontier.crawl, number))
    return count


async def _workers(frontier: Frontier, number: int) -> list[bytes]:
    with suppress(ResponseError):
        return list(await frontier.client.zrange(keys.workers(frontier.crawl, number), 0, -1))
    return []


async def _fields(frontier: Frontier, key: str) -> list[bytes]:
    with suppress(ResponseError):
        return list(await frontier.client.hkeys(key))
    return []


async def _unlink_outcomes(frontier: Frontier, number: int) -> None:
    prefix, buckets = keys.outcomes_prefix(frontier.crawl, number), 0
    with suppress(ResponseError, ValueError):
        found = await frontier.client.hget(keys.meta(frontier.crawl, number), "outcomes")
        buckets = min(int(found or 0), MOST_BUCKETS)
    for start in range(0, buckets, AT_ONCE):
        await frontier.client.unlink(
            *(f"{prefix}{bucket}" for bucket in range(start, min(buckets, start + AT_ONCE)))
        )
    await frontier.client.unlink(f"{prefix}{NAMES}")


async def _unlink_hosts(frontier: Frontier, number: int, on_host: Callable[[], None]) -> None:
    hosts = keys.hosts(frontier.crawl, number)
    names: list[bytes] = []
    async for host, packed in frontier.client.hscan_iter(hosts, count=AT_ONCE):
        on_host()
        names += [
            keys.queue(frontier.crawl, number, level, "").encode() + host
            for level in _levels(packed)
        ]
        names.append(keys.robots(frontier.crawl, number, "").encode() + host)
        if len(names) >= AT_ONCE:
            await frontier.client.unlink(*names)
            names = []
    if names:
        await frontier.client.unlink(*names)


def _levels(packed: bytes) -> list[float]:
    """The levels at which a host has queues: all there can be, where its record is damaged."""
    try:
        return [level + 0 for level in read_host(packed).levels]
    except Exception:  # whatever may be wrong with bytes of unknown origin
        priorities = range(LOWEST, HIGHEST + 1)
        return [*priorities, *map(seed_level, priorities), REVISIT, MOVED, FIRST]
