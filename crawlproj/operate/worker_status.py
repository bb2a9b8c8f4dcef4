"""The workers of a crawl, as they told of themselves with their last heartbeats. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from crawlproj.frontier.survey import Survey, WorkerFound
from crawlproj.frontier.worker_names import plain
from crawlproj.operate import recent_pages
from crawlproj.operate.recent_pages import RecentPage
from crawlproj.worker.heartbeat import BEATS_A_TIMEOUT
from crawlproj.worker.identity import read_about


@dataclass(frozen=True)
class WorkerStatus:
    """One worker process, as it told of itself with its last heartbeat."""

    name: str
    host: str
    """The machine it runs on."""
    pid: int
    alive: bool
    heartbeat_s: float | None
    """Since when it has been silent."""
    leased: int
    pages: int
    pages_per_s: float
    memory: int
    """Bytes."""
    waiting: int
    """Links that it keeps because Redis has no room for them."""
    draining: bool = False
    """Whether it was taken out of service, and hands in what it holds."""
    missed: int = 0
    """Heartbeats that did not come when they should have: long before it counts as dead."""


def read(shards: Sequence[Survey]) -> tuple[WorkerStatus, ...]:
    """All that the crawl knows of, by name; the first shard has what they tell."""
    leases = Counter[str]()
    for shard in shards:
        leases.update({worker.name: worker.leases for worker in shard.workers})
    first = sorted(shards[0].workers)
    return tuple(_worker(one, leases[one.name], shards[0]) for one in first)


def recent(shard: Survey) -> tuple[RecentPage, ...]:
    """What all of them had last."""
    told = [(one, read_about(one.about)) for one in shard.workers]
    return recent_pages.latest(
        page
        for one, about in told
        for page in recent_pages.read(about, _silent_ms(one, about, shard) / 1000, plain(one.name))
    )


def _silent_ms(found: WorkerFound, about: Mapping[str, Any], shard: Survey) -> float:
    return max(0.0, shard.now_ms - found.silent_at_ms + whole_number(about.get("timeout_ms")))


def _worker(found: WorkerFound, leases: int, shard: Survey) -> WorkerStatus:
    told, now_ms = read_about(found.about), shard.now_ms
    timeout_ms, silent_ms = whole_number(told.get("timeout_ms")), _silent_ms(found, told, shard)
    return WorkerStatus(
        name=plain(found.name),
        host=str(told.get("host") or ""),
        pid=whole_number(told.get("pid")),
        alive=found.silent_at_ms > now_ms,
        heartbeat_s=round(silent_ms / 1000, 1) if timeout_ms else None,
        leased=leases,
        pages=whole_number(told.get("pages")),
        pages_per_s=_decimal(told.get("pages_per_s")),
        memory=whole_number(told.get("memory")),
        waiting=whole_number(told.get("waiting")),
        draining=told.get("draining") is True,
        missed=_missed(silent_ms, timeout_ms),
    )


def _missed(silent_ms: float, timeout_ms: int) -> int:
    """Half a heartbeat late is missed: two after its last, a worker that was killed is known."""
    return max(0, round(silent_ms * BEATS_A_TIMEOUT / timeout_ms) - 1) if timeout_ms > 0 else 0


def whole_number(value: Any) -> int:
    """A whole number that others have written: 0 if it is none."""
    with suppress(TypeError, ValueError, OverflowError):
        return int(value)
    return 0


def _decimal(value: Any) -> float:
    """The same of any number that is not negative."""
    with suppress(TypeError, ValueError, OverflowError):
        found = float(value)
        return found if 0 <= found < math.inf else 0.0
    return 0.0
