"""The live block of a worker, where its log goes to a terminal; elsewhere nothing."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

from crawlproj.errors import CrawlError
from crawlproj.operate.plain_text import is_terminal
from crawlproj.server import connection

if TYPE_CHECKING:
    from crawlproj.operate.terminal.under_log import UnderLog
    from crawlproj.running import RunningCrawl


class LiveBlock:
    """Shown from `start` until `close`, if there is a terminal."""

    def __init__(self) -> None:
        self._drawn: UnderLog | None = None
        self._starting: asyncio.Task[None] | None = None

    @property
    def is_shown(self) -> bool:
        """Whether a line in the log would say the same once more."""
        return self._drawn is not None

    def start(self, crawl: RunningCrawl) -> None:
        """Begin to draw, over a connection of its own."""
        if is_terminal(sys.stderr):
            self._starting = asyncio.create_task(self._start(crawl))

    async def close(self) -> None:
        """Leave the log as it would be without."""
        if self._starting is not None:
            await self._starting
        if self._drawn is not None:
            await self._drawn.close()

    async def _start(self, crawl: RunningCrawl) -> None:
        # Late: Rich is for those who have a terminal.
        from crawlproj.operate.terminal.under_log import UnderLog, log_on_terminal

        handler = log_on_terminal()
        if handler is None:
            return
        with suppress(CrawlError, RedisError):  # then there are lines in the log
            client = await connection.connect(*crawl.redis)
            self._drawn = UnderLog(client, crawl.frontier.crawl, handler)
            self._drawn.start()
