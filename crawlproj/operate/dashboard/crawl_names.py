"""The names of all crawls on a Redis. Keys are looked through for them, gently: a large frontier
has millions."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from redis.exceptions import NoPermissionError

from crawlproj.frontier import crawl_names
from crawlproj.operate.dashboard.polling import Gently

FRESH_S = 2.0
"""For how long nothing is looked for after a look that was quick."""
REST, FIRST_REST = 30, 2
"""Between two calls, in lengths of the first: only who has no names yet is in a hurry."""
MOST = 50
"""Crawls that are shown and measured, in the order of their names."""
WAIT_S = 0.1
"""How long who asks waits for a look that is not through, while no name is known."""


class CrawlNames:
    """What is known of them so far; those that are asked for by name count too."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._names: set[str] = set()
        self._looked_at_s = float("-inf")
        self._rest_s = FRESH_S
        self._has_looked = False
        self._task: asyncio.Task[None] | None = None

    async def get(self) -> list[str]:
        """The names, in order; a look that takes long goes on in the background."""
        is_due = time.monotonic() - self._looked_at_s > self._rest_s
        if self._task is None and is_due:
            self._task = asyncio.create_task(self._look())
        if self._task is not None:
            await asyncio.wait([self._task], timeout=0 if self._names else WAIT_S)
            if self._task.done():
                task, self._task = self._task, None
                await task
        return sorted(self._names)[:MOST]

    def add(self, name: str) -> None:
        """One that somebody has named, and that is there."""
        self._names.add(name)

    async def _look(self) -> None:
        began_s = time.monotonic()
        try:
            found = await self._scan()
        except NoPermissionError:  # this user may not list keys: names have to be given
            found = self._names
        self._names, self._has_looked = found, True
        took_s = time.monotonic() - began_s
        self._looked_at_s, self._rest_s = time.monotonic(), max(FRESH_S, 2 * took_s)

    async def _scan(self) -> set[str]:
        found: set[str] = set()
        gently = Gently(REST if self._has_looked else FIRST_REST)
        async for name in crawl_names.find(self._client, gently.turn):
            found.add(name)
            self._names.add(name)
        return found
