"""Looks at a crawl again and again: how it stands, how fast it is, since when nobody answers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from redis.exceptions import RedisError

from crawlproj.errors import CrawlError
from crawlproj.frontier import history
from crawlproj.frontier.history import Moment
from crawlproj.operate.status import Status
from crawlproj.operate.terminal.away import Away, still_away

KEPT = 600
"""Looks whose rates are remembered."""

PAST_EVERY_S = 5.0

Read: TypeAlias = Callable[[], Awaitable[Status]]
ReadPast: TypeAlias = Callable[[], Awaitable[list[Moment]]]


class Lookout:
    """The last status that could be read. `now` is None until there is one. Where the past can be
    read too, it is from time to time."""

    def __init__(self, read: Read, read_past: ReadPast | None = None) -> None:
        self._read = read
        self._read_past = read_past
        self._past: list[Moment] = []
        self.now: Status | None = None
        self.away: Away | None = None
        self._rates: deque[float] = deque(maxlen=KEPT)
        self._spans: deque[float] = deque(maxlen=KEPT)
        self.is_gone = False
        """Whether there was a crawl and is none any more."""
        self._looked_at = 0.0
        self._past_at = -PAST_EVERY_S

    @property
    def rates(self) -> list[float]:
        """Pages a second between one look and the next."""
        return [*self._rates]

    @property
    def longest(self) -> tuple[list[float], float]:
        """Pages a second as far back as they are known, and how many seconds that is."""
        if len(self._past) > 2:
            span_s = self._past[-1].at_s - self._past[0].at_s
            if span_s > sum(self._spans):
                return [one.pages for one in history.rates(self._past)], span_s
        return self.rates, sum(self._spans)

    async def look(self) -> None:
        """Ask once; whoever does not answer is away until he does."""
        try:
            found = await self._ask()
        except (CrawlError, RedisError, OSError) as error:
            self.away = still_away(self.away, error)
            return
        self._note(found, time.monotonic())
        self.away = None

    async def _ask(self) -> Status:
        found = await self._read()
        if self._read_past and found.epoch and time.monotonic() - self._past_at >= PAST_EVERY_S:
            self._past_at = time.monotonic()
            self._past = await self._read_past()
        return found

    def _note(self, found: Status, at: float) -> None:
        before, since = self.now, at - self._looked_at
        self.now, self._looked_at = found, at
        self.is_gone = found.epoch is None and (self.is_gone or bool(before and before.epoch))
        if before is None or before.epoch != found.epoch:
            self._rates.clear()
            self._spans.clear()
        elif since > 0:
            self._rates.append(max(0, found.done - before.done) / since)
            self._spans.append(since)
