"""Brings what a worker has found to its shards, and returns when it will not be lost there.

Each shard's share goes in pieces that keep Redis busy only briefly; shards are served side by
side. Knows the frontier, not the loops: how to wait for a Redis that is away is told by `insist`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from crawlproj import failpoints
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.shard import Push, Shard

logger = logging.getLogger(__name__)

PUSH_AT_ONCE = 500
"""URLs in one script call: Redis does nothing else meanwhile."""

Insist = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


class Delivery:
    """Pushes for one worker, one call at a time."""

    def __init__(self, frontier: Frontier, insist: Insist) -> None:
        self._frontier = frontier
        self._insist = insist

    async def bring(self, pushes: list[Push], seen_locally: int) -> None:
        """Push everything, and count the links that were recognised without asking."""
        groups = self._frontier.by_shard(pushes)
        if seen_locally and not groups:
            groups = {0: []}
        shares = []
        for number, items in groups.items():
            shares.append(self._share(self._frontier.shards[number], items, seen_locally))
            seen_locally = 0
        # Not left alone when one fails: the next call must not meet it.
        for result in await asyncio.gather(*shares, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _share(self, shard: Shard, items: list[Push], seen_locally: int) -> None:
        for start in range(0, max(1, len(items)), PUSH_AT_ONCE):
            await self._piece(shard, items[start : start + PUSH_AT_ONCE], seen_locally)
            failpoints.reached("pushed")
            seen_locally = 0

    async def _piece(self, shard: Shard, part: list[Push], seen_locally: int) -> None:
        """Push until it is kept: what a failover took back goes again."""
        push = partial(shard.push, self._frontier.worker, part, seen_locally)
        await self._insist(push)
        while not await self._insist(partial(self._frontier.keeps, shard)):
            logger.warning("A failover has lost %d URL(s): they are pushed again", len(part))
            await self._insist(push)
