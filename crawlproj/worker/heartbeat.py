"""The heartbeat of a worker, and for how long its leases are valid: other workers take them over
once the heartbeat has been missing for the lease timeout."""

from __future__ import annotations

import asyncio

from crawlproj.frontier.clock import clock_s
from crawlproj.frontier.frontier import Frontier
from crawlproj.worker.hooks import Hooks
from crawlproj.worker.lease_buffer import LeaseBuffer

VALID_SHARE = 0.75
"""Share of the lease timeout after which a worker without heartbeat stops: what it had sent is over
when others begin, also for the server, which may go on with a request that was broken off."""

BEATS_A_TIMEOUT = 4
"""Heartbeats in the silence after which a worker counts as dead."""

LOOK_EVERY_S = 0.5
"""How often a worker without valid leases looks whether they are valid again."""


class Heartbeat:
    """Leases are valid for a while from when the last heartbeat that got through was sent."""

    def __init__(
        self, frontier: Frontier, hooks: Hooks, buffer: LeaseBuffer, lease_timeout_s: float
    ) -> None:
        self._frontier = frontier
        self._hooks = hooks
        self._buffer = buffer
        self._timeout_ms = int(lease_timeout_s * 1000)
        self._valid_s = VALID_SHARE * lease_timeout_s
        self._has_surplus = False
        self._beating = asyncio.Lock()
        self.renewed_at = clock_s()

    @property
    def left_s(self) -> float:
        """Until others may soon count this worker as dead; negative from then on."""
        return self.renewed_at + self._valid_s - clock_s()

    async def beat(self) -> None:
        """Renew all leases. One heartbeat at a time: the first one after a worker was declared dead
        says so, a second one would not, and until the leases are synced none of them is sure."""
        async with self._beating:
            asked_at, known = clock_s(), len(self._buffer.names)
            renewed = await self._frontier.renew(self._timeout_ms, self._hooks.about())
            # Leases of a call that is under way are counted before its reply is here, so that more
            # than are known is a surplus only the second time.
            has_surplus, had_surplus = renewed.leases > known, self._has_surplus
            self._has_surplus = has_surplus and not had_surplus
            if not renewed.known or (has_surplus and had_surplus):
                await self._buffer.sync()
            self.renewed_at = asked_at
        if renewed.outrun:
            await self._buffer.let_go(renewed.outrun)
        if renewed.is_to_leave:
            self._hooks.leave()

    async def watch(self) -> None:
        """Have what is under way broken off before others may begin with it, for ever."""
        while True:
            while (left_s := self.left_s) > 0:
                await asyncio.sleep(left_s)
            self._hooks.break_off()
            while self.left_s <= 0:
                await asyncio.sleep(LOOK_EVERY_S)
