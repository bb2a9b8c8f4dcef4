"""The last few pages and errors of this worker, which its heartbeat tells: a view shows what goes
on right now, and no page costs a call for it."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from crawlproj.frontier.messages import Lease, Settlement
from crawlproj.frontier.outcomes import Attempt
from crawlproj.frontier.records import summarise

PAGES, ERRORS = 4, 2
"""Told of each: about a kilobyte a heartbeat."""
LONGEST_URL = 160


class Recent:
    """What ended last. Nothing is made of it before somebody asks."""

    def __init__(self) -> None:
        self._ended: dict[str, deque[tuple[float, Lease, Settlement]]] = {
            "done": deque(maxlen=PAGES),
            "dead": deque(maxlen=ERRORS),
        }

    def note(self, attempt: Attempt, settlement: Settlement) -> None:
        """A lease has ended so."""
        if (ended := self._ended.get(settlement.verdict)) is not None:
            ended.append((time.monotonic(), attempt.lease, settlement))

    def fields(self) -> list[list[Any]]:
        """Of each: seconds ago, status, reason (of an error), URL; as operate/recent_pages.py reads
        it."""
        now = time.monotonic()
        return [
            [round(now - at, 1), one.status, one.reason, _url(lease)]
            for ended in self._ended.values()
            for at, lease, one in ended
        ]


def _url(lease: Lease) -> str:
    return summarise(lease.host, lease.entry).url[:LONGEST_URL]
