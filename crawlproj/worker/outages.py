"""Repeats what Redis cannot do now, until it can.

After an outage a worker must learn some things anew, since Redis may have changed meanwhile: that
is called before anything else goes on. Knows errors and waiting times, not what the operations are.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from redis.exceptions import ResponseError

from crawlproj.frontier.refusals import is_demoted, is_passing
from crawlproj.frontier.replication import ReplicasBehind
from crawlproj.server.connection import OUTAGE

logger = logging.getLogger(__name__)

T = TypeVar("T")

AWAY: tuple[type[Exception], ...] = (*OUTAGE, OSError)
"""Redis cannot answer now and may later: wait for it."""

FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 2.0


class RetryUntilAvailable(Protocol):
    """Does an operation, however long Redis is away."""

    def __call__(self, operation: Callable[[], Awaitable[T]], /) -> Awaitable[T]: ...


class Outages:
    """Of one worker, however many operations it has under way."""

    def __init__(
        self,
        reconnect: Callable[[], Awaitable[None]],
        come_back: Callable[[], Awaitable[None]],
    ) -> None:
        """`reconnect` leaves a server that is no longer the master; `come_back` proves that the
        one that answers can be written to, and learns anew what it knows."""
        self._reconnect = reconnect
        self._prove_and_learn = come_back
        self._away_since: float | None = None
        self._returning = asyncio.Lock()
        self.is_behind = False
        """True while replicas lack what they should have before pages are settled."""

    async def retry_until_available(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Do it, however long Redis is away. It must be possible to repeat it without harm."""
        wait_s, was_behind = FIRST_WAIT_S, False
        while True:
            try:
                if self._away_since is not None:
                    await self._come_back()
                result = await operation()
                self.is_behind = self.is_behind and not was_behind
                return result
            except ReplicasBehind as error:
                was_behind = True
                self._fall_behind(error)
            except AWAY as error:
                await self._be_away(error)
            except ResponseError as error:
                if not is_passing(error):
                    raise
                await self._be_away(error)
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    async def _be_away(self, error: Exception) -> None:
        if self._away_since is None:
            self._away_since = time.monotonic()
            logger.warning("Redis does not answer (%s); waiting for it", error)
        if is_demoted(error):
            await self._reconnect()

    def _fall_behind(self, error: Exception) -> None:
        if not self.is_behind:
            self.is_behind = True
            logger.warning("%s", error)

    async def _come_back(self) -> None:
        """After Redis was away: what this worker believed of it may not be so any more. It counts
        as away until that has succeeded."""
        async with self._returning:
            if self._away_since is None:
                return
            await self._prove_and_learn()
            away_s, self._away_since = time.monotonic() - self._away_since, None
            logger.warning("Redis answers again after %.1f s", away_s)
