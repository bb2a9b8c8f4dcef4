"""`scrapy status --watch` on a terminal: the screen, drawn anew while the crawl goes on, and keys.

It stays when the crawl has ended and while Redis does not answer, and says so, until it is left.
"""

from __future__ import annotations

import asyncio
import math
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from redis.exceptions import RedisError
from rich.console import Console
from rich.live import Live

from crawlproj.errors import CrawlError
from crawlproj.frontier.frontier import Frontier
from crawlproj.operate import control
from crawlproj.operate.status import Status
from crawlproj.operate.terminal.keyboard import pressed_keys
from crawlproj.operate.terminal.lookout import Lookout, Read, ReadPast
from crawlproj.operate.terminal.screen import Picture, screen

REFRESH_S = 1.0
ENTER, ESCAPE, BACKSPACE = "\r\n", "\x1b", "\x7f\b"
MOST_TYPED = 2083
SAID_S = 8.0
"""For how long it is shown what came of a key."""
EXPLAINED_S = 60.0
"""The same of what became of a URL, which is longer to read."""

WhyOf = Callable[[str], Awaitable[str]]


class Watch:
    """What is shown, and what keys do."""

    def __init__(self, frontier: Frontier, read: Read, read_past: ReadPast, why_of: WhyOf) -> None:
        self._frontier = frontier
        self._why_of = why_of
        self._lookout = Lookout(read, read_past)
        self._typed: str | None = None
        self._asked_to_stop = False
        self._answer = ""
        self._answered_until = 0.0
        self._changed = asyncio.Event()
        self._left = asyncio.Event()

    async def run(self) -> Status | None:
        """Until it is left; returns the last status that was read."""
        console = Console()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGWINCH, self._changed.set)
        loop.add_signal_handler(signal.SIGTERM, self._left.set)
        await self._lookout.look()
        with (
            pressed_keys(sys.stdin) as keys,
            Live(console=console, screen=True, auto_refresh=False) as live,
        ):
            tasks = [
                asyncio.create_task(work)
                for work in (self._look(), self._obey(keys), self._draw(live, console))
            ]
            left = asyncio.create_task(self._left.wait())
            ended, _ = await asyncio.wait([*tasks, left], return_when=asyncio.FIRST_COMPLETED)
            for task in (*tasks, left):
                task.cancel()
            await asyncio.gather(*tasks, left, return_exceptions=True)
        for task in ended:
            task.result()
        return self._lookout.now

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            await self._lookout.look()
            self._changed.set()

    async def _draw(self, live: Live, console: Console) -> None:
        """Whenever something has changed, and once a second: times go on."""
        while True:
            width, height = console.size
            live.update(screen(self._picture(), width, height), refresh=True)
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(REFRESH_S):
                    await self._changed.wait()

    def _picture(self) -> Picture:
        lookout = self._lookout
        rates, span_s = lookout.longest
        return Picture(
            lookout.now or Status(self._frontier.crawl),
            rates,
            span_s,
            lookout.away,
            lookout.is_gone,
            self._typed,
            "stop it on all machines?" if self._asked_to_stop else "",
            self._answer if time.monotonic() < self._answered_until else "",
        )

    # Keys

    async def _obey(self, keys: asyncio.Queue[str]) -> None:
        while True:
            await self._press(await keys.get())
            self._changed.set()

    async def _press(self, key: str) -> None:
        if self._typed is not None:
            await self._type(key)
        elif self._asked_to_stop:
            self._asked_to_stop = False
            if key in "yY":
                await self._tell(self._command(control.stop))
        elif key == "p":
            await self._tell(self._command(control.pause))
        elif key == "r":
            await self._tell(self._command(control.resume))
        elif key == "s":
            self._asked_to_stop = True
        elif key in "/w":
            self._typed = ""
        elif key in "qQ":
            self._left.set()
        else:
            self._answer = ""

    async def _type(self, key: str) -> None:
        typed = self._typed or ""
        if key in ENTER:
            self._typed = None
            if typed.strip():
                await self._tell(self._why_of(typed.strip()), EXPLAINED_S)
        elif key == ESCAPE:
            self._typed = None
        else:
            self._typed = typed[:-1] if key in BACKSPACE else (typed + key)[:MOST_TYPED]

    async def _command(self, change: Callable[[Frontier], Awaitable[control.Answer]]) -> str:
        answer = await change(self._frontier)
        await self._lookout.look()
        return f"{self._frontier.crawl}: {answer.text}"

    async def _tell(self, work: Awaitable[str], for_s: float = SAID_S) -> None:
        """Show what comes of it, for so long; Redis may be away."""
        self._answer, self._answered_until = "…", math.inf
        self._changed.set()
        try:
            self._answer = await work
        except (CrawlError, RedisError, OSError) as error:
            self._answer = f"that could not be done: {error}"
        self._answered_until = time.monotonic() + for_s
