"""What Redis keeps of each host's robots.txt for all workers: a record of the file (robots.py) or,
as long as there is none, a claim of whoever is on the way to get it. Both expire.

A record is good for the crawl in which it was made: the next one of that name asks anew.

A claim can name the host in whose queue the file stands, after a redirect: it is renewed while
something stands there, however long that takes. Knows nothing of rules.
"""

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.exceptions import OutOfMemoryError

from crawlproj.frontier import keys
from crawlproj.frontier.levels import MOVED
from crawlproj.frontier.scripts import script
from crawlproj.politeness.robots_memory import bound

if TYPE_CHECKING:
    from crawlproj.frontier.frontier import Frontier

logger = logging.getLogger(__name__)

KEPT_S = 24 * 3600
"""For how long a file is believed, at most."""

ASKED_S = 60
"""How long others trust in a claim, before one of them asks again."""

CLAIM_S = 10
"""How long they leave it to a worker that has found nothing, and does not know whether the host's
robots.txt is in the hands of another, which would say so any moment."""

GRACE_S = 2.0
"""How long that worker waits for it before it asks."""

_CLAIM, _ELSEWHERE = b"", b"\0"
_CLAIMS = (_CLAIM, _ELSEWHERE)

MARK_BYTES = 8
"""Of the crawl's epoch, before each record."""


class Kept(NamedTuple):
    """What was found of one host."""

    record: bytes | None = None
    """What the file says, as robots.py packs it."""
    left_s: int = 0
    """For how long it, or the claim in its place, is kept."""
    is_claimed: bool = False
    """Somebody had claimed it before."""
    stands_at: str = ""
    """The host whose queue it is in, if its own has sent us there."""


class RobotsStore:
    """One worker's view of them."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        # Hosts whose robots.txt is this worker's to ask for, and from when on.
        self._claimed: OrderedDict[str, float] = OrderedDict()

    async def look_up(self, claims_s: dict[str, int]) -> dict[str, Kept]:
        """What is kept of each host; where there is nothing, a claim for so many seconds is, unless
        they are 0 or there is no room for it: then everyone who needs it asks."""
        if not claims_s:
            return {}
        replies = await self._ask(claims_s)
        if any(isinstance(reply, OutOfMemoryError) for reply in replies):
            replies = await self._ask(dict.fromkeys(claims_s, 0))
        found = zip(claims_s, replies[::2], replies[1::2], strict=True)
        return {
            host: await self._read(host, value, ttl_s, claims_s[host])
            for host, value, ttl_s in found
        }

    async def peek(self, host: str) -> bytes:
        """The record that is kept of a host, without a claim to it; empty if there is none."""
        value: bytes = await self._frontier.client.get(self._key(host)) or b""
        return value[len(self._mark) :] if value.startswith(self._mark) else b""

    async def left_s(self, host: str) -> int:
        """For how long what is kept of a host is believed."""
        return max(0, int(await self._frontier.client.ttl(self._key(host))))

    async def _ask(self, claims_s: dict[str, int]) -> list[Any]:
        pipeline = self._frontier.client.pipeline(transaction=False)
        for host, claim_s in claims_s.items():
            if claim_s:
                pipeline.set(self._key(host), _CLAIM, nx=True, get=True, ex=claim_s)
            else:
                pipeline.get(self._key(host))
            pipeline.ttl(self._key(host))
        for host, claim_s in claims_s.items():
            if claim_s == ASKED_S:
                pipeline.expire(self._key(host), ASKED_S, gt=True)
        replies: list[Any] = await pipeline.execute(raise_on_error=False)
        return replies[: 2 * len(claims_s)]

    async def _read(self, host: str, value: Any, ttl_s: Any, claim_s: int) -> Kept:
        if isinstance(value, Exception):
            if not str(value).startswith("WRONGTYPE"):
                raise value
            await self.clear(host)
            return Kept()
        if value is None:
            return Kept(left_s=ttl_s)
        if value[:1] in _CLAIMS:
            return Kept(
                None, ttl_s, is_claimed=True, stands_at=value[1:].decode("utf-8", "replace")
            )
        if not value.startswith(self._mark):
            return await self._replace(host, claim_s)
        return Kept(value[len(self._mark) :], max(1, ttl_s))

    async def _replace(self, host: str, claim_s: int) -> Kept:
        """Put a claim in the place of what an earlier crawl has left, unless another worker was
        quicker with that or with a record."""
        if not claim_s:
            return Kept()
        before = await self._frontier.client.set(self._key(host), _CLAIM, get=True, ex=claim_s)
        if before and before.startswith(self._mark):
            await self._frontier.client.set(self._key(host), before, ex=KEPT_S)
            return Kept(before[len(self._mark) :], KEPT_S)
        return Kept(left_s=claim_s, is_claimed=before is not None and before[:1] in _CLAIMS)

    @property
    def _mark(self) -> bytes:
        """What the records of this crawl begin with, other than those of earlier ones."""
        return self._frontier.shards[0].epoch[:MARK_BYTES].encode()

    async def keep(self, host: str, record: bytes, seconds: int) -> None:
        """Tell all workers what a host's robots.txt says."""
        with self._without_room(host):
            await self._frontier.client.set(self._key(host), self._mark + record, ex=seconds)

    async def keep_denial(self, host: str, record: bytes, seconds: int) -> bool:
        """Tell them that it cannot be had; False if another has had it."""
        return await self._keep_unless_known(host, self._mark + record, seconds)

    async def claim(self, host: str, seconds: int, stands_at: str = "") -> bool:
        """Say that it is on the way, and in which other host's queue; False if another has it."""
        value = _ELSEWHERE + stands_at.encode() if stands_at else _CLAIM
        return await self._keep_unless_known(host, value, seconds)

    async def _keep_unless_known(self, host: str, value: bytes, seconds: int) -> bool:
        """Who fails to get it, or is sent elsewhere, may be late with that: a worker that stood
        still, or one of two that were given it."""
        args, kept = [value, seconds, self._mark], script("keep_robots")
        with self._without_room(host):
            return bool(await kept(self._frontier.client, [self._key(host)], args))
        return True

    @contextmanager
    def _without_room(self, host: str) -> Iterator[None]:
        try:
            yield
        except OutOfMemoryError:
            logger.info("Redis has no room for %s/robots.txt: other workers ask for it too", host)

    @property
    def remembered(self) -> int:
        """Hosts whose robots.txt it waits for, or has asked for."""
        return len(self._claimed)

    async def is_ours_to_ask(self, host: str, kept: Kept) -> bool:
        """Whether a robots.txt that pages wait for is this worker's to ask for, now: true once.
        Nobody's, while it stands in a queue, which keeps the claim to it alive."""
        if await self._is_queued(kept):
            await self._renew(host)
            return False
        now = time.monotonic()
        if not kept.is_claimed:
            self._claimed.setdefault(host, now + GRACE_S)
            bound(self._claimed)
        elif kept.left_s > CLAIM_S:
            self._claimed.pop(host, None)
        if self._claimed.get(host, math.inf) > now:
            return False
        self._claimed[host] = now + ASKED_S
        await self._renew(host)
        return True

    def let_go(self, host: str) -> None:
        """It is known by now."""
        self._claimed.pop(host, None)

    async def _renew(self, host: str) -> None:
        await self._frontier.client.expire(self._key(host), ASKED_S, gt=True)

    async def _is_queued(self, kept: Kept) -> bool:
        if not kept.stands_at or not 0 <= kept.left_s < ASKED_S / 2:
            return False
        shard = self._frontier.shard_of(kept.stands_at).number
        queue = keys.queue(self._frontier.crawl, shard, MOVED, kept.stands_at)
        return bool(await self._frontier.client.exists(queue))

    async def clear(self, host: str) -> None:
        """Somebody else's bytes, or even another type, stand where the host's rules should."""
        logger.warning("What is kept of %s/robots.txt cannot be read; it is fetched again", host)
        await self._frontier.client.delete(self._key(host))
        self._claimed[host] = 0.0

    def _key(self, host: str) -> str:
        return keys.robots(self._frontier.crawl, self._frontier.shard_of(host).number, host)
