"""The live block of a worker on a terminal: under its log, for as long as it is at work."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from functools import partial
from typing import Any

from scrapy.utils.log import get_scrapy_root_handler

from crawlproj.frontier.frontier import Frontier
from crawlproj.operate import status
from crawlproj.operate.terminal.block import block
from crawlproj.operate.terminal.bottom import BottomBlock
from crawlproj.operate.terminal.lookout import Lookout

EVERY_S, SELDOM_S = 1.0, 5.0
SHARE = 0.01
"""Of its time a worker looks at the crawl: with many hosts and workers a look takes 20 ms."""


def rest_s(took_s: float) -> float:
    """How long to leave the block as it is, after a look that took so long."""
    return min(SELDOM_S, max(EVERY_S, took_s / SHARE))


class UnderLog:
    """Draws the block, and has the log written above it."""

    def __init__(self, client: Any, crawl: str, handler: logging.StreamHandler[Any]) -> None:
        # Of its own: to look attaches a frontier anew, and the worker's is in use.
        frontier = Frontier(client, crawl, "")
        self._client = client
        self._lookout = Lookout(partial(status.read, frontier, in_detail=True))
        self._handler = handler
        self._bottom = BottomBlock(handler.stream)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to draw."""
        self._handler.setStream(self._bottom)
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Leave the log as it would be without."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._bottom.close()
        self._handler.setStream(sys.stderr)
        await self._client.aclose()

    async def _run(self) -> None:
        while True:
            began_s = time.monotonic()
            await self._lookout.look()
            took_s = time.monotonic() - began_s
            if (now := self._lookout.now) is not None:
                lookout, width = self._lookout, self._bottom.width
                self._bottom.draw(block(now, lookout.rates, width, lookout.away))
            await asyncio.sleep(rest_s(took_s))


def log_on_terminal() -> logging.StreamHandler[Any] | None:
    """Who writes the log, if that goes to a terminal which can be drawn on."""
    handler = get_scrapy_root_handler()
    if type(handler) is not logging.StreamHandler:
        return None
    return handler if handler.stream is sys.stderr else None
