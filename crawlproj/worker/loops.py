"""Loops that run in the background until they are ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress


class Loops:
    """A task for each; an error ends its loop and is told."""

    def __init__(self, on_error: Callable[[Exception], None]) -> None:
        self._on_error = on_error
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, *loops: Callable[[], Awaitable[None]]) -> None:
        self._tasks = [asyncio.create_task(self._guarded(loop)) for loop in loops]

    async def end(self) -> None:
        """Cancel until they are gone: a cancellation that meets a reply just then can be lost."""
        pending = set(self._tasks)
        while pending:
            for task in pending:
                task.cancel()
            _, pending = await asyncio.wait(pending, timeout=0.2)

    async def _guarded(self, loop: Callable[[], Awaitable[None]]) -> None:
        try:
            await loop()
        except Exception as error:
            self._on_error(error)


async def wait_until_set(event: asyncio.Event, most_s: float) -> bool:
    """Sleep until the event or for so long; the event is cleared. True if it came."""
    # Not wait_for(): it can swallow the cancellation by which a loop ends.
    with suppress(TimeoutError):
        async with asyncio.timeout(most_s):
            await event.wait()
    has_come = event.is_set()
    event.clear()
    return has_come
