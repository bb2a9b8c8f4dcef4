"""What one worker remembers of robots.txt files, so that it asks Redis once an hour a host, and
since when it waits for those that it does not know. Pure.

Bounded by number and size. A host whose rules are long pushes out others of that kind alone: the
rules of a hundred ordinary hosts take as much as those of one that means harm.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any, NamedTuple

from crawlproj.frontier.outcomes import PUT_OFF_MS
from crawlproj.politeness.robot_rules import RobotsRules

MOST_HOSTS = 20_000
SHORT_BYTES = 32 * 1024
"""Rules that take more than this in memory are long."""
MOST_SHORT_BYTES = 48 * 1024 * 1024
MOST_LONG_BYTES = 16 * 1024 * 1024
"""Those of one file may take 3 MB."""

LONGEST_LOOK_S = 15.0
"""How long the pages of a host rest at most between two looks whether its robots.txt is known."""

DISALLOWED = "robots"
UNREACHABLE = "robots_unreachable"
NOT_CONTACTED = "address"


class Known(NamedTuple):
    """What a host allows; without rules nothing, for a reason."""

    rules: RobotsRules | None
    until: float
    rests_until: float = 0.0
    """Before that the host gets no page, since nothing has paused it for its Crawl-delay."""
    refusal: str = UNREACHABLE
    """Why a host without rules gets no page."""

    def refuses(self, url: str) -> str:
        """Why a page of the host must not be fetched; empty if it may be."""
        if self.rules is None:
            return self.refusal
        return "" if self.rules.allows(url) else DISALLOWED

    @property
    def rest_ms(self) -> int:
        """How long the host must still rest before its first page."""
        return max(0, round((self.rests_until - time.monotonic()) * 1000))

    @property
    def is_valid(self) -> bool:
        """Whether it can be gone by without asking again."""
        return self.until >= time.monotonic()


class _Pool:
    """Hosts in the order in which they were learned; the oldest make room."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._hosts: OrderedDict[str, tuple[Known, int]] = OrderedDict()
        self._bytes = 0

    def get(self, host: str) -> Known | None:
        found = self._hosts.get(host)
        return found[0] if found else None

    def put(self, host: str, known: Known, size_bytes: int) -> None:
        self._hosts[host] = known, size_bytes
        self._bytes += size_bytes
        while len(self._hosts) > MOST_HOSTS or self._bytes > self._most_bytes:
            self.forget(next(iter(self._hosts)))

    def forget(self, host: str) -> None:
        if found := self._hosts.pop(host, None):
            self._bytes -= found[1]


class Memory:
    """The rules of hosts, and the hosts whose rules are waited for."""

    def __init__(self) -> None:
        # With when their pages began to wait, and when that was last looked at.
        self._waiting: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._short = _Pool(MOST_SHORT_BYTES)
        self._long = _Pool(MOST_LONG_BYTES)

    def last(self, host: str) -> Known | None:
        """What was last known of a host, even if it is to be asked about again."""
        return self._short.get(host) or self._long.get(host)

    def valid(self, host: str) -> Known | None:
        """What is known of a host."""
        known = self.last(host)
        return known if known and known.is_valid else None

    def put(self, host: str, known: Known) -> None:
        """Remember what a host allows."""
        self.forget(host)
        self._waiting.pop(host, None)
        size_bytes = known.rules.size_bytes if known.rules else 0
        pool = self._short if size_bytes <= SHORT_BYTES else self._long
        pool.put(host, known, size_bytes)

    def forget(self, host: str) -> None:
        """Ask about the host again."""
        self._short.forget(host)
        self._long.forget(host)

    def next_look_ms(self, host: str) -> int:
        """How long a page waits before it is looked at again whether its host's robots.txt is
        known: the longer, the longer it has waited."""
        now = time.monotonic()
        since, last = self._waiting.get(host, (now, now))
        if now - last > 2 * LONGEST_LOOK_S:
            since = now  # that was another time
        self._waiting[host] = since, now
        bound(self._waiting)
        return max(PUT_OFF_MS, round(min((now - since) / 4, LONGEST_LOOK_S) * 1000))


def bound(table: OrderedDict[Any, Any], most: int | None = None) -> None:
    """Drop the oldest of what is more than so many, or than hosts are remembered."""
    while len(table) > (MOST_HOSTS if most is None else most):
        table.popitem(last=False)
