"""For how long what a worker holds is its own for certain: others take it over once they have not
heard its heartbeat for the lease timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from crawlproj.frontier.clock import clock_s

SURE = 0.75
"""Share of the lease timeout after which a worker without heartbeat stops: what it had sent is over
when others begin, also for the server, which may go on with a request that was broken off."""

LOOK_EVERY_S = 0.5
"""How often a worker that is not sure looks whether it is again."""


class Certainty:
    """Counted from when the last heartbeat that got through was sent."""

    def __init__(self, lease_timeout_s: float) -> None:
        self._sure_s = SURE * lease_timeout_s
        self.renewed_at = clock_s()

    @property
    def left_s(self) -> float:
        """Until others may soon count this worker as dead; negative from then on."""
        return self.renewed_at + self._sure_s - clock_s()

    async def watch(self, break_off: Callable[[], None]) -> None:
        """Have what is under way broken off before others may begin with it, for ever."""
        while True:
            while (left_s := self.left_s) > 0:
                await asyncio.sleep(left_s)
            break_off()
            while self.left_s <= 0:
                await asyncio.sleep(LOOK_EVERY_S)
