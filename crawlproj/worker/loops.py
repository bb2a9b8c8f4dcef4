"""Loops that run in the background until they are ended, and how long they collect what they
exchange with Redis: the longer, the less often Redis is asked, and the longer hosts rest beyond
their delay."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

USUAL_S = 0.01
"""A host with a delay of a second rests about 1 % longer for it."""
AT_SPEED_S = 0.03
"""Where no host rests, nobody waits for what has ended."""
SHARE_OF_DELAY = 1 / 16
"""Of a short delay: more would be noticed."""


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


def before_lease_s(delay_s: float) -> float:
    """How long hosts that fall due are collected."""
    return min(USUAL_S, delay_s * SHARE_OF_DELAY)


def before_settling_s(delay_s: float, *, has_more: bool) -> float:
    """How long requests that have ended are collected, with more of them to begin or not."""
    if not has_more:
        return before_lease_s(delay_s)
    return USUAL_S if delay_s else AT_SPEED_S
