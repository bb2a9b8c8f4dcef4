"""The pages and errors that workers had last, as their heartbeats tell (worker/recent.py). Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

MOST = 20
"""Of all workers together, the latest first."""


@dataclass(frozen=True)
class RecentPage:
    """A page that was fetched, or an error: then it has a reason."""

    url: str
    status: int
    reason: str
    ago_s: float
    """When it ended."""
    worker: str


def read(told: Mapping[str, Any], silent_s: float, worker: str) -> Iterator[RecentPage]:
    """What a heartbeat that came so long ago has told; what cannot be read is left out."""
    listed = told.get("recent")
    for one in listed if isinstance(listed, list) else ():
        with suppress(TypeError, ValueError, OverflowError):
            ago_s, status, reason, url = one
            ago_s = float(ago_s) + silent_s
            if math.isfinite(ago_s):
                yield RecentPage(str(url), int(status), str(reason), round(ago_s, 1), worker)


def latest(pages: Iterable[RecentPage]) -> tuple[RecentPage, ...]:
    """The last of all workers."""
    return tuple(sorted(pages, key=attrgetter("ago_s"))[:MOST])
