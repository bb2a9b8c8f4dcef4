"""The hosts of a crawl that are worth a line: the busiest, the slowest, those that are left alone
or fail; and how long all of them take at least.

Of a crawl with very many hosts, as far as a look at some of them shows (frontier/survey.py); those
that are left alone longest are always among them. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple

from crawlproj.frontier.finishing import UNSETTLED
from crawlproj.frontier.hosts import read_group, read_host
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.survey import HostFound, Survey

SHOWN_HOSTS = 5
SHOWN_BUSIEST = 20
"""As many as a high terminal has rows for."""
SHOWN_FAILING = 50
"""More of these: they are what a crawl that brings nothing is asked about."""


@dataclass(frozen=True)
class HostStatus:
    """A host, or a group of hosts that keep one pace."""

    host: str
    pages: int
    queued: int = 0
    out: int = 0
    """Requests that are under way."""
    failures: int = 0
    """In a row, up to now."""
    held: bool = False
    held_s: float = 0.0
    """For how long it is still to be left alone."""
    why: str = ""
    """Why it is, as failures are called elsewhere: http_503, timeout, …"""
    pause_s: float = 0.0
    """Between requests of one connection."""
    estimate_s: float = 0.0
    """What its queue takes, at least."""

    @property
    def doing(self) -> str:
        """What is going on with it, in a word: the first of these that is true."""
        if self.held:
            return "held"
        if self.failures:
            return "failing"
        if self.out:
            return "works"
        return "rests" if self.queued else "done"


def read(plan: Plan, shards: Iterable[Survey]) -> list[HostStatus]:
    """The hosts that were looked at. A damaged record is the scripts' to mend."""
    return [host for shard in shards for host in _read(plan, shard)]


def _read(plan: Plan, shard: Survey) -> Iterator[HostStatus]:
    for found in shard.some_hosts:
        with suppress(ValueError, TypeError):
            yield read_one(plan, found, shard.now_ms)


def read_one(plan: Plan, found: HostFound, now_ms: int) -> HostStatus:
    """A host or a group; raises ValueError or TypeError if its record is damaged."""
    read = _host if "://" in found.name else _group
    return read(plan, found, now_ms)


def _host(plan: Plan, found: HostFound, now_ms: int) -> HostStatus:
    record = read_host(found.packed)
    held_s = _held_s(record.held_until_ms, now_ms)
    pause_s = max(plan.delay_ms, record.pause_ms or 0) / 1000
    connections = max(1, record.connections or plan.per_host)
    return HostStatus(
        found.name,
        record.pages,
        found.queued,
        record.out,
        record.failures,
        held=held_s > 0,
        held_s=held_s,
        why=record.why if held_s else "",
        pause_s=pause_s,
        estimate_s=held_s + found.queued * pause_s / connections,
    )


def _group(plan: Plan, found: HostFound, now_ms: int) -> HostStatus:
    record = read_group(found.packed)
    held_s = _held_s(record.held_until_ms, now_ms)
    return HostStatus(
        found.name,
        record.pages,
        out=record.out,
        held=held_s > 0,
        held_s=held_s,
        why=record.why if held_s else "",
        pause_s=plan.delay_s,
    )


def _held_s(until_ms: float | None, now_ms: int) -> float:
    return round(max(0.0, (until_ms or 0) - now_ms) / 1000, 1)


def by_doing(hosts: Iterable[HostStatus]) -> dict[str, int]:
    """How many of them work, rest, are held, fail, are done."""
    return dict(Counter(host.doing for host in hosts))


def busiest(hosts: Iterable[HostStatus]) -> tuple[HostStatus, ...]:
    """Those with the most pages."""
    return tuple(sorted(hosts, key=attrgetter("pages"), reverse=True)[:SHOWN_BUSIEST])


def slowest(hosts: Iterable[HostStatus]) -> tuple[HostStatus, ...]:
    """Those that will be the last to be read, or fail."""
    some = [host for host in hosts if host.queued or host.failures]
    return _first(sorted(some, key=attrgetter("estimate_s", "failures"), reverse=True))


def held(hosts: Iterable[HostStatus]) -> tuple[HostStatus, ...]:
    """Those that are left alone, for the longest time first."""
    some = [host for host in hosts if host.held]
    return _first(sorted(some, key=attrgetter("held_s"), reverse=True))


def failing(hosts: Iterable[HostStatus]) -> tuple[HostStatus, ...]:
    """Those that failed up to now: first those that gave no page, then by failures in a row."""
    some = [host for host in hosts if host.failures]
    some.sort(key=lambda host: (host.pages > 0, -host.failures, host.host))
    return tuple(some[:SHOWN_FAILING])


def _first(hosts: Sequence[HostStatus]) -> tuple[HostStatus, ...]:
    return tuple(hosts[:SHOWN_HOSTS])


# How long it takes


class Bound(StrEnum):
    """What decides how long it takes."""

    NONE = ""
    """Nothing is left, or nothing is known."""
    WORKERS = "workers"
    """All that is known, at the rate at which they fetch."""
    HOST = "host"
    """The slowest one, by its queue, pause and connections."""
    PAGES = "pages"
    """The budget of pages, which is used up before all that is known is fetched."""


class TimeLeft(NamedTuple):
    """None if it is not known."""

    seconds: float | None = None
    bound: Bound = Bound.NONE


def estimate(
    pages: int | None, ledger: Mapping[str, int], rate: float, hosts: Iterable[HostStatus]
) -> TimeLeft:
    """Until all that is known is done, or the budget of pages is used up."""
    left = sum(ledger[name] for name in UNSETTLED)
    slowest_s = max((host.estimate_s for host in hosts), default=0.0)
    bound = Bound.WORKERS
    if pages is not None:
        # It may be used up long before the slowest host is through.
        slowest_s = 0.0
        if pages - ledger["done"] < left:
            left, bound = max(0, pages - ledger["done"]), Bound.PAGES
    seconds = left / rate if rate else 0.0
    if slowest_s > seconds:
        seconds, bound = slowest_s, Bound.HOST
    return TimeLeft(round(seconds, 1), bound) if round(seconds, 1) else TimeLeft()
