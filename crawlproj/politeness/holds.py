"""Hosts that asked to be left alone, as far as this worker knows. URLs of such a host that it has
leased go back to the frontier.

A host may have several connections, so that URLs of it wait in this worker's buffer while others
are being fetched. When one of those gets a Retry-After, here or at another worker, the ones in the
buffer must not start. The hold itself is kept by the frontier, for all workers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from crawlproj.frontier.messages import Lease

REMEMBERED = 10_000


class Holds:
    """Host, or group that keeps one pace, -> when its hold is over."""

    def __init__(self, *, by_group: bool) -> None:
        self._by_group = by_group
        self._until: dict[str, float] = {}

    def note(self, lease: Lease, hold_ms: int, *, for_group: bool) -> None:
        """A response has asked for rest."""
        keeper = lease.group if self._by_group and for_group else ""
        self.update({keeper or lease.host: hold_ms})

    def update(self, held_ms: Mapping[str, int]) -> None:
        """These are to be left alone for so long from now on."""
        now = time.monotonic()
        if len(self._until) > REMEMBERED:
            self._until = {name: until for name, until in self._until.items() if until > now}
        for name, hold_ms in held_ms.items():
            self._until[name] = max(self._until.get(name, 0.0), now + hold_ms / 1000)

    @property
    def remembered(self) -> int:
        """How many hosts and groups; some may be over."""
        return len(self._until)

    def left_ms(self, lease: Lease) -> int:
        """How long the host of a lease is still to be left alone."""
        if not self._until:
            return 0
        until = max(self._until.get(lease.host, 0.0), self._until.get(lease.group, 0.0))
        return max(0, round((until - time.monotonic()) * 1000))
