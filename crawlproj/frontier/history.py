"""A crawl's past, at its heartbeats: what was queued, done and dead at one moment after the other.

Workers' heartbeats write it (frontier/lua/_history.lua), at no call of their own, into lists of
bounded length: fine for the last hour, coarser for the last day, coarse for two months. One round
trip reads one of them from all shards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from enum import Enum
from itertools import pairwise

from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.readings import refusing_damage
from crawlproj.frontier.wire import unpack_all


class Span(Enum):
    """How far back, and how closely: as in _history.lua."""

    HOUR = (10, 360)
    DAY = (120, 720)
    ALL = (3600, 1440)

    @property
    def step_s(self) -> int:
        """Seconds between two moments, if heartbeats are that frequent."""
        return self.value[0]

    @property
    def most(self) -> int:
        """Moments that are kept."""
        return self.value[1]


@dataclass(frozen=True)
class Moment:
    """How the crawl stood at one moment. Counts are totals since it began."""

    at_s: int
    """Seconds since 1970, by the crawl's clock."""
    discovered: int = 0
    queued: int = 0
    delayed: int = 0
    leased: int = 0
    done: int = 0
    dead: int = 0
    bytes: int = 0
    hosts: int = 0
    workers: int = 0
    """Alive."""
    memory: int = 0
    """Bytes that Redis used; of a cluster, its fullest server's."""

    @property
    def filtered(self) -> int:
        """For any reason: the rest of the ledger."""
        rest = self.queued + self.delayed + self.leased + self.done + self.dead
        return self.discovered - rest


@dataclass(frozen=True)
class Rates:
    """What happened between two moments, a second."""

    at_s: int
    pages: float
    dead: float
    found: float
    """URLs that were new."""
    bytes: float


_LENGTH = len(fields(Moment))
_OF_CRAWL = ("workers", "memory")
"""What every shard tells of the same thing, so that it is not summed."""
_SUMMED = [one.name for one in fields(Moment) if one.name not in ("at_s", *_OF_CRAWL)]


async def read(frontier: Frontier, span: Span = Span.HOUR, most: int = 0) -> list[Moment]:
    """The last moments of a frontier that is attached, the oldest first; all that there are, or at
    most so many."""
    pipeline = frontier.client.pipeline(transaction=False)
    for shard in frontier.shards:
        key = keys.history_prefix(frontier.crawl, shard.number) + str(span.step_s)
        pipeline.lrange(key, -(most or span.most), -1)
    with refusing_damage("history"):
        found = await pipeline.execute()
    return combined([_moments(packed) for packed in found], span.step_s)


def _moments(packed: Iterable[bytes]) -> list[Moment]:
    """What can be read; all else is no moment of ours."""
    moments = []
    for one in packed:
        with suppress(ValueError, TypeError):
            values = unpack_all(one)
            if len(values) >= _LENGTH:
                moments.append(Moment(*map(int, values[:_LENGTH])))
    return moments


def combined(shards: Sequence[Sequence[Moment]], step_s: int) -> list[Moment]:
    """One series of all shards'. One that has no moment in a step stands as it did before."""
    by_step: dict[int, dict[int, Moment]] = {}
    for number, moments in enumerate(shards):
        for moment in moments:
            by_step.setdefault(moment.at_s // step_s, {})[number] = moment
    latest: dict[int, Moment] = {}
    series = []
    for _, found in sorted(by_step.items()):
        latest |= found
        series.append(_summed(list(found.values()), list(latest.values())))
    return series


def _summed(now: Sequence[Moment], latest: Sequence[Moment]) -> Moment:
    totals = {name: sum(getattr(one, name) for one in latest) for name in _SUMMED}
    shared = {name: max(getattr(one, name) for one in now) for name in _OF_CRAWL}
    return replace(Moment(max(one.at_s for one in now)), **totals, **shared)


def rates(moments: Sequence[Moment]) -> list[Rates]:
    """Between each moment and the next. What was taken back, such as dead letters that are tried
    again, counts as none."""
    return [
        _rates(before, after) for before, after in pairwise(moments) if after.at_s > before.at_s
    ]


def _rates(before: Moment, after: Moment) -> Rates:
    def rate(name: str) -> float:
        grown: int = getattr(after, name) - getattr(before, name)
        return max(0.0, round(grown / (after.at_s - before.at_s), 3))

    return Rates(after.at_s, rate("done"), rate("dead"), rate("discovered"), rate("bytes"))


def memory_lasts_s(moments: Sequence[Moment], limit: int) -> float | None:
    """How long Redis has room if it fills as it did between the first and the last of these; None
    without a limit, or if it does not fill."""
    if not limit or len(moments) < 2:
        return None
    first, last = moments[0], moments[-1]
    grown, took_s = last.memory - first.memory, last.at_s - first.at_s
    if grown <= 0 or took_s <= 0:
        return None
    return max(0.0, limit - last.memory) * took_s / grown
