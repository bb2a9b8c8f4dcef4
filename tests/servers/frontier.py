"""What tests and benchmarks do with a frontier in one step, which workers do in several."""

from __future__ import annotations

from collections.abc import Iterable

from crawlproj.frontier import burying, combined
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Push, Reclaimed


async def push_all(frontier: Frontier, batch: Iterable[Push]) -> int:
    """Take in URLs, once; returns how many were new."""
    groups = frontier.by_shard(batch)
    new = [await frontier.shards[n].push(frontier.worker, group) for n, group in groups.items()]
    return sum(map(sum, new))


async def reclaim(frontier: Frontier) -> Reclaimed:
    """Queue again what dead workers held."""
    parts = [await burying.reclaim(shard, frontier.worker) for shard in frontier.shards]
    return combined.reclaimed(parts)
