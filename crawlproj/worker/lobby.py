"""Where a worker waits while there is nothing to work at: no crawl has begun, or it has finished.

A crawl begins with its first seed. Until one comes, whoever waits leaves everything as it is, and
only shows that it is there; it goes when it is told to, or when its patience ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from crawlproj.discover.seeds import AT_ONCE, LOOK_EVERY_S, TROUBLE, SeedList, parse_seed
from crawlproj.frontier import keys
from crawlproj.frontier.frontier import DISMISSALS, Frontier
from crawlproj.frontier.refusals import CrawlReplaced, CrawlWiped
from crawlproj.urls import normalise
from crawlproj.worker.idle import Idle
from crawlproj.worker.outages import Outages

logger = logging.getLogger(__name__)

Found = Literal["own seed", "seed", "crawl", "stopped", "nothing"]


class _Sight(NamedTuple):
    """What is to be seen of a crawl from outside."""

    epoch: str
    state: str
    waits: bool
    dismissals: int


@dataclass
class Lobby:
    """`check` raises for a seed that cannot be used; `brings_own` tells whether the spider has
    come up with one by itself, `may_bring` whether it still may without being told that it is
    `idle`."""

    frontier: Frontier
    seeds: SeedList
    redis: str
    folder: Path
    check: Callable[[bytes], Any] | None
    brings_own: Callable[[], bool]
    may_bring: Callable[[], bool]
    lease_timeout_s: float
    idle: Idle
    patience_s: float

    def __post_init__(self) -> None:
        self.outages = Outages(self.frontier.reconnect, self._renew)

    async def wait(self) -> Found:
        """Returns when there is something to do, and what."""
        retry_until_available = self.outages.retry_until_available
        began, before, trouble = time.monotonic(), await retry_until_available(self._look), ""
        self._shown_at = float("-inf")
        has_greeted = False
        while True:
            try:
                found = await retry_until_available(partial(self._find, before))
            except TROUBLE as error:
                found, trouble = None, _told(trouble, error)
            if found:
                return found
            # Asked once more: while Redis was, start() may have yielded all that it has.
            if not self.may_bring() and not self.brings_own():
                if not has_greeted:
                    has_greeted = True
                    self._greet(before.state)
                waited_s = time.monotonic() - began
                if self.idle.may_end(0) and (self.idle.reason or waited_s >= self.patience_s):
                    return "nothing"
            await asyncio.sleep(LOOK_EVERY_S)

    def _greet(self, state: str) -> None:
        """Say at what this worker waits, and for what."""
        crawl, begun = self.frontier.crawl, "has not begun yet"
        if state == "finished":
            begun = f"has finished, and its results are in {self.folder}"
        logger.info(
            "The crawl %r %s. This worker waits for seeds, with the first of which a new one "
            "begins: push them to %s of the Redis at %s (scrapy seed %s URL)",
            crawl,
            begun,
            self.seeds.key,
            self.redis,
            crawl,
        )
        if state == "paused":
            logger.warning("It is paused: scrapy resume %s lets its workers go on", crawl)

    async def leave(self) -> None:
        """Say goodbye, and stop what was to be stopped, if this was the last."""
        shard = self.frontier.shards[0]
        await shard.leave(self.frontier.worker)
        if (await self._look()).state == "stopping":
            await shard.finish()

    async def _find(self, before: _Sight) -> Found | None:
        now = await self._look()
        # A crawl that has begun meanwhile counts dismissals anew.
        is_dismissed = now.epoch == before.epoch and now.dismissals > before.dismissals
        if is_dismissed or (now.waits and now.state == "stopping"):
            return "stopped"
        if self.brings_own():
            return "own seed"
        if now.epoch != before.epoch or (now.state != "finished" and not now.waits):
            return "crawl"
        if await self._has_seed():
            return "seed"
        await self._show()
        return None

    async def _look(self) -> _Sight:
        names = ("epoch", "state", "waits", DISMISSALS)
        key = keys.meta(self.frontier.crawl, 0)
        found = [value or b"" for value in await self.frontier.client.hmget(key, names)]
        epoch, state, waits, dismissals = (value.decode(errors="replace") for value in found)
        return _Sight(epoch, state, waits == "1", int(dismissals or 0))

    async def _has_seed(self) -> bool:
        """Whether one waits that can be used: nothing ends or begins with one that cannot."""
        if not await self.seeds.size():
            return False
        if self.check is None:
            return True
        async with self.seeds.turn() as mine:
            return mine and await self._sort_out(self.check)

    async def _sort_out(self, check: Callable[[bytes], Any]) -> bool:
        for data in await self.seeds.peek(AT_ONCE):
            try:
                check(data)
                return True
            except (ValueError, TypeError, RecursionError) as error:
                logger.warning("Seed refused: %s: %s", data[:200].decode(errors="replace"), error)
                await self.seeds.reject(data, str(error))
                await self.seeds.remove([data])
        return False

    async def _show(self) -> None:
        """Be among the workers that the crawl's status lists."""
        if time.monotonic() - self._shown_at >= self.lease_timeout_s / 4:
            await self._renew()
            self._shown_at = time.monotonic()

    async def _renew(self) -> None:
        """The heartbeat, which also proves that Redis can be written to."""
        about = {"host": socket.gethostname(), "pid": os.getpid(), "pages": 0}
        timeout_ms = int(self.lease_timeout_s * 1000)
        with suppress(CrawlWiped, CrawlReplaced):  # another has begun: that shows the next time
            await self.frontier.shards[0].renew(self.frontier.worker, timeout_ms, about)


def check_seed(data: bytes) -> None:
    """Raise ValueError or TypeError, unless it is a seed as docs/seeds.md describes it."""
    normalise(parse_seed(data).url)


def _told(before: str, error: Exception) -> str:
    """Say once what keeps seeds from being seen."""
    if str(error) != before:
        logger.warning("Seeds wait: %s", error)
    return str(error)
