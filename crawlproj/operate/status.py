"""How a crawl stands: one typed `Status`, read from the frontier in a handful of calls whatever the
number of workers, hosts and shards. `scrapy status`, fleets, progress and summaries all show this
one, so they cannot disagree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from crawlproj.discover.seeds import SeedList, SeedListError
from crawlproj.frontier.bloom import expected_error
from crawlproj.frontier.finishing import UNSETTLED
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.noticeboard import is_first_to
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.survey import Survey, survey
from crawlproj.frontier.worker_names import plain
from crawlproj.items import utc_timestamp
from crawlproj.operate import host_status, pattern_release, worker_status
from crawlproj.operate.host_status import HostStatus
from crawlproj.operate.pattern_release import PatternStatus
from crawlproj.operate.recent_pages import RecentPage
from crawlproj.operate.worker_status import WorkerStatus, whole_number
from crawlproj.output.summary import Summary
from crawlproj.server.memory import Memory, memory_of

LEDGER = ("discovered", *UNSETTLED, "done", "dead")
_SIZES = ("duplicates", "bytes", "saved_bytes")
_ON_THE_WAY = ("resting", "revisits", "reclaimed", "copies", "late", "corrupt")
BESIDE = (*_SIZES, *_ON_THE_WAY)
"""Counts beside the ledger that are shown as they are."""
OVER = ("finished", "stopped")
_FILTERED, _DEAD, _STATUS, _ITEMS = "filtered:", "dead:", "status:", "items:"


@dataclass(frozen=True)
class SeenHealth:
    """The seen filter: how full it is, and how often it errs."""

    capacity: int = 0
    items: int = 0
    expected_fp: float = 0.0
    measured_fp: float | None = None
    audited: int = 0


@dataclass(frozen=True)
class MemoryStatus:
    """Redis's memory in bytes, and the links that wait in workers for room there."""

    used: int = 0
    limit: int = 0
    share: float = 0.0
    waiting: int = 0


@dataclass(frozen=True)
class Status:
    """A crawl; one that has not begun is empty. The first fields are the ledger, which adds up to
    `balance` 0 at any moment."""

    crawl: str
    epoch: str | None = None
    state: str = "empty"
    discovered: int = 0
    queued: int = 0
    delayed: int = 0
    leased: int = 0
    done: int = 0
    dead: int = 0
    filtered: Mapping[str, int] = field(default_factory=dict)
    balance: int = 0
    duplicates: int = 0
    hosts: int = 0
    seeds_waiting: int = 0
    """Seeds that users have pushed and no worker has taken in yet."""
    started_at: str | None = None
    finished_at: str | None = None
    elapsed_s: float = 0.0
    """How long it has run, without pauses and the time in which nobody was at it."""
    pages_per_s: float = 0.0
    """By what the workers did between their last heartbeats; before that, on average."""
    estimate_s: float | None = None
    """What is queued takes at least so long."""
    estimate_bound: str = ""
    """What does not let it be faster: a `Bound` of operate/host_status.py."""
    bytes: int = 0
    saved_bytes: int = 0
    """Not transferred, since pages have not changed since an earlier crawl."""
    statuses: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Of the dead."""
    items: Mapping[str, int] = field(default_factory=dict)
    """Of a spider's own classes."""
    resting: int = 0
    """Pages among the done, and sitemaps among the filtered, that are to be revisited."""
    revisits: int = 0
    """How often a page that was done has been taken up again."""
    reclaimed: int = 0
    copies: int = 0
    """How often a URL that one worker took long over was leased to another as well."""
    late: int = 0
    corrupt: int = 0
    workers: tuple[WorkerStatus, ...] = ()
    recent: tuple[RecentPage, ...] = ()
    """The last pages and errors of all workers."""
    all_workers: tuple[str, ...] = ()
    """All who ever took part."""
    memory: MemoryStatus = MemoryStatus()
    seen: SeenHealth = SeenHealth()
    hosts_by_doing: Mapping[str, int] = field(default_factory=dict)
    """Of the hosts that were looked at: how many work, rest, are held, fail, are done."""
    busiest: tuple[HostStatus, ...] = ()
    slowest: tuple[HostStatus, ...] = ()
    held: tuple[HostStatus, ...] = ()
    failing: tuple[HostStatus, ...] = ()
    patterns: tuple[PatternStatus, ...] = ()
    plan: Plan | None = None
    """What all workers go by."""
    unreadable: str = ""
    """What of the plan this version does not know, of a crawl that another has begun; else ""."""

    @property
    def alive(self) -> int:
        """Workers that are at it."""
        return sum(worker.alive for worker in self.workers)

    @property
    def average(self) -> float:
        """Pages a second of the time in which it ran."""
        return (self.done + self.revisits) / self.elapsed_s if self.elapsed_s else 0.0


def as_json(status: Status) -> dict[str, Any]:
    """What `scrapy status --json` prints."""
    told = asdict(status, dict_factory=_with_lists)
    return {**told, "plan": told["plan"] or {}}


def _with_lists(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields}


async def read(
    frontier: Frontier, seeds: SeedList | None = None, *, in_detail: bool = False
) -> Status:
    """The crawl that is there. In detail: with notable hosts, and the URL patterns that are set
    aside."""
    waiting = await _seeds_waiting(seeds)
    meta = await frontier.attach(only_to_look=True)
    if not meta:
        return Status(frontier.crawl, seeds_waiting=waiting)
    shards = await survey(frontier, with_hosts=in_detail)
    return replace(
        _status(frontier, meta, shards, await memory_of(frontier.client)),
        seeds_waiting=waiting,
        patterns=await pattern_release.shown(frontier) if in_detail else (),
    )


async def _seeds_waiting(seeds: SeedList | None) -> int:
    with suppress(SeedListError):  # said by the workers, which cannot take them in
        return await seeds.size() if seeds else 0
    return 0


def _status(
    frontier: Frontier, meta: Mapping[str, str], shards: Sequence[Survey], memory: Memory
) -> Status:
    counts: Counter[str] = Counter()
    for shard in shards:
        counts.update(shard.counts)
    ledger = {name: counts[name] for name in LEDGER}
    filtered = _named(counts, _FILTERED)
    workers = worker_status.read(shards)
    state = _state(meta["state"], ledger["discovered"], workers)
    elapsed_s = _elapsed_s(meta, shards[0].now_ms, state)
    hosts = host_status.read(frontier.plan, shards)
    rate, left = 0.0, host_status.TimeLeft()
    if state == "running":
        rate = _rate(workers, ledger["done"], elapsed_s)
        left = host_status.estimate(frontier.plan.pages, ledger, rate, hosts)
    return Status(
        crawl=frontier.crawl,
        epoch=meta["epoch"],
        state=state,
        **ledger,
        filtered=filtered,
        balance=ledger["discovered"] - sum([*ledger.values()][1:]) - sum(filtered.values()),
        hosts=sum(shard.hosts for shard in shards),
        started_at=_time(meta.get("started_ms")),
        finished_at=_ended_at(meta) if state in OVER else None,
        elapsed_s=elapsed_s,
        pages_per_s=round(rate, 2),
        estimate_s=left.seconds,
        estimate_bound=left.bound.value,
        statuses=_named(counts, _STATUS),
        reasons=_named(counts, _DEAD),
        items=_named(counts, _ITEMS),
        **{name: counts[name] for name in BESIDE},
        workers=workers,
        recent=worker_status.recent(shards[0]),
        all_workers=_all_workers(meta),
        memory=_memory(memory, workers),
        seen=_seen(frontier, shards, counts),
        hosts_by_doing=host_status.by_doing(hosts),
        busiest=host_status.busiest(hosts),
        slowest=host_status.slowest(hosts),
        held=host_status.held(hosts),
        failing=host_status.failing(hosts),
        patterns=(),
        plan=frontier.plan,
        unreadable=frontier.unreadable,
    )


def _all_workers(meta: Mapping[str, str]) -> tuple[str, ...]:
    """The names of all that ever took part; an older version has kept them as `crew`."""
    names = meta.get("all_workers") or meta.get("crew", "")
    return tuple(dict.fromkeys(map(plain, names.split())))


def _named(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {
        name.removeprefix(prefix): value
        for name, value in sorted(counts.items())
        if name.startswith(prefix) and value
    }


def _state(state: str, discovered: int, workers: Iterable[WorkerStatus]) -> str:
    """As users see it: a crawl that nobody works on has stopped, however that came about."""
    if not discovered:
        return "empty"
    has_worker = any(worker.alive for worker in workers)
    return "stopped" if state in ("running", "stopping") and not has_worker else state


# Time


def _elapsed_s(meta: Mapping[str, str], now_ms: int, state: str) -> float:
    ran_ms = whole_number(meta.get("ran_ms"))
    if state in ("running", "stopping"):
        ran_ms += max(0, now_ms - (whole_number(meta.get("ran_until_ms")) or now_ms))
    return round(ran_ms / 1000, 3)


def _ended_at(meta: Mapping[str, str]) -> str | None:
    """When somebody was last at it."""
    return _time(meta.get("ran_until_ms") or meta.get("finished_ms"))


def _time(epoch_ms: str | None) -> str | None:
    with suppress(OverflowError, OSError, ValueError):
        return utc_timestamp(int(epoch_ms) / 1000) if epoch_ms else None
    return None


def _rate(workers: Iterable[WorkerStatus], done: int, elapsed_s: float) -> float:
    told = sum(worker.pages_per_s for worker in workers if worker.alive)
    return told or (done / elapsed_s if elapsed_s else 0.0)


# Memory, the seen filter


def _memory(memory: Memory, workers: Iterable[WorkerStatus]) -> MemoryStatus:
    waiting = sum(worker.waiting for worker in workers)
    return MemoryStatus(memory.used, memory.limit, round(memory.share, 4), waiting)


def _seen(frontier: Frontier, shards: Sequence[Survey], counts: Mapping[str, int]) -> SeenHealth:
    geometry = frontier.shards[0].geometry
    layers = [shard.layers for shard in shards]
    audited = counts["audit_new"]
    return SeenHealth(
        capacity=sum(geometry.layer_capacity(n) for items in layers for n in range(len(items))),
        items=sum(map(sum, layers)),
        expected_fp=sum(expected_error(geometry, items) for items in layers) / len(layers),
        measured_fp=counts["audit_false"] / audited if audited else None,
        audited=audited,
    )


# The summary


async def is_last_word(frontier: Frontier, status: Status) -> bool:
    """True for the worker that writes the summary when it leaves: the first to see that the crawl
    has ended, or the last one there."""
    if status.state not in OVER:
        return False
    ended_ms = (await frontier.shards[0].meta()).get("finished_ms")
    if status.state == "stopped" or not ended_ms:
        return True
    return await is_first_to(frontier, f"summed_up:{ended_ms}")


def sum_up(status: Status) -> Summary:
    """The summary of a crawl that stands so."""
    return Summary(
        crawl=status.crawl,
        epoch=status.epoch,
        state=status.state,
        started_at=status.started_at,
        finished_at=status.finished_at or utc_timestamp(),
        duration_s=status.elapsed_s,
        pages_per_s=round(status.average, 2),
        bytes=status.bytes,
        saved_bytes=status.saved_bytes,
        **{name: getattr(status, name) for name in (*LEDGER, "duplicates", "reclaimed", "late")},
        filtered=status.filtered,
        statuses=status.statuses,
        hosts=status.hosts,
        failed_hosts={host.host: host.failures for host in status.failing if not host.pages},
        workers=status.all_workers,
        reasons=status.reasons,
        items=status.items,
    )
