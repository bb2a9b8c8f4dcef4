"""Seeds that users push to the crawl's list (or set, or sorted set) while it runs.

A seed is looked at, pushed to the frontier, and only then removed, so a worker that dies in
between leaves it where it was. Several workers may take in the same seed; the frontier keeps one.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from scrapy import Request

from crawlproj import keys
from crawlproj.connection import OUTAGE
from crawlproj.errors import CrawlError
from crawlproj.frontier.shard import Push

logger = logging.getLogger(__name__)

LIST, SET, SORTED_SET = "list", "set", "zset"

LOOK_EVERY_S = 0.5
AT_ONCE = 200


class SeedList:
    """The Redis key that users push seeds to."""

    def __init__(self, client: Any, key: str, shape: str = LIST) -> None:
        self.client = client
        self.key = key
        self.shape = shape

    async def size(self) -> int:
        """Seeds that wait."""
        count = {LIST: self.client.llen, SET: self.client.scard, SORTED_SET: self.client.zcard}
        return int(await count[self.shape](self.key))

    async def peek(self, most: int) -> list[bytes]:
        """The seeds that have waited longest (best first, in a sorted set)."""
        if self.shape == SET:
            return list(await self.client.srandmember(self.key, most))
        if self.shape == SORTED_SET:
            return list(await self.client.zrevrange(self.key, 0, most - 1))
        return list(reversed(await self.client.lrange(self.key, -most, -1)))

    async def remove(self, seeds: Iterable[bytes]) -> None:
        """Forget seeds that the frontier has."""
        if self.shape == SET:
            await self.client.srem(self.key, *seeds)
        elif self.shape == SORTED_SET:
            await self.client.zrem(self.key, *seeds)
        else:
            for seed in seeds:
                await self.client.lrem(self.key, -1, seed)

    async def reject(self, seed: bytes, reason: str) -> None:
        """Set aside a seed that cannot be used, with its reason."""
        shown = seed[:2000].decode(errors="replace")
        await self.client.rpush(
            keys.rejected(self.key), json.dumps({"seed": shown, "reason": reason})
        )


def parse_seed(data: bytes) -> Request:
    """A plain URL, or scrapy-redis's JSON: url, priority, meta, method, body, headers, depth."""
    text = data.decode(errors="strict").strip()
    if not text.startswith("{"):
        return Request(text)
    fields = json.loads(text)
    unknown = set(fields) - {"url", "priority", "meta", "method", "body", "headers", "cookies"}
    if not isinstance(fields.get("url"), str):
        raise ValueError('the JSON has no "url"')
    if unknown:
        raise ValueError(f"unknown field {sorted(unknown)[0]!r}")
    if not isinstance(fields.get("priority", 0), int):
        raise ValueError('"priority" must be a whole number')
    if not isinstance(fields.get("meta", {}), dict):
        raise ValueError('"meta" must be an object')
    return Request(**fields)


def read_seeds(seeds: str) -> list[str]:
    """Comma-separated URLs, or the lines of @file."""
    if seeds.startswith("@"):
        lines: Iterable[str] = Path(seeds[1:]).read_text(encoding="utf-8").splitlines()
    else:
        lines = seeds.split(",")
    return [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]


class Intake:
    """Moves seeds from their list into the frontier, as long as the crawl runs."""

    def __init__(
        self,
        seeds: SeedList,
        make: Callable[[bytes], Any],
        to_push: Callable[[Request], Push],
        push: Callable[[list[Push]], Awaitable[None]],
        is_open: Callable[[], bool],
    ) -> None:
        self._seeds = seeds
        self._make = make
        self._to_push = to_push
        self._push = push
        self._is_open = is_open

    async def run(self) -> None:
        """Look at the list again and again."""
        while True:
            try:
                taken = await self.take() if self._is_open() else 0
            except OUTAGE:
                taken = 0
            await asyncio.sleep(0 if taken else LOOK_EVERY_S)

    async def take(self) -> int:
        """Take in some of the seeds that wait; returns how many."""
        waiting = await self._seeds.peek(AT_ONCE)
        pushes: list[Push] = []
        refused = 0
        for data in waiting:
            try:
                pushes += [self._to_push(request) for request in self._requests_of(data)]
            except (ValueError, TypeError, CrawlError) as error:
                refused += 1
                logger.warning("Seed refused: %s: %s", data[:200].decode(errors="replace"), error)
                await self._seeds.reject(data, str(error))
        await self._push(pushes)
        if waiting and self._is_open():
            await self._seeds.remove(waiting)
            logger.info("Took in %d seed(s)", len(waiting) - refused)
        return len(waiting)

    def _requests_of(self, data: bytes) -> list[Request]:
        made = self._make(data)
        requests = [made] if isinstance(made, Request) else list(made or ())
        if not requests:
            raise ValueError("the spider made no request of it")
        return requests
