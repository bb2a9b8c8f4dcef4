"""The metrics of crawls, from their `Status`: what `/metrics` of the dashboard says. Pure.

Labels are bounded: never a URL; hosts, reasons and statuses only the first few, the rest together
as `other`. docs/monitoring.md has a line for each name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from crawlproj.operate.exposition import CONTENT_TYPE, Family, text
from crawlproj.operate.host_status import HostStatus
from crawlproj.operate.status import Status
from crawlproj.operate.worker_status import WorkerStatus

__all__ = ["CONTENT_TYPE", "exposition", "families"]

MOST_VALUES = 30
"""Of one label: reasons, statuses."""

DEAD = ("crawl_dead_letters", "gauge", "Dead letters, by reason.")
FILTERED = ("crawl_filtered_total", "counter", "URLs that were filtered, by reason.")
RESPONSES = ("crawl_responses_total", "counter", "Responses, by status.")

DOING = ("crawl_hosts_doing", "gauge", "Hosts looked at: works, rests, held, failing, done.")

STATES = ("empty", "running", "paused", "stopping", "stopped", "finished")
OTHER = "other"


class Plain(NamedTuple):
    """A number of a crawl that stands for itself."""

    name: str
    kind: str
    help: str
    value: Callable[[Status], float | None]


PLAIN = (
    Plain("crawl_pages_total", "counter", "Pages that are done.", lambda s: s.done),
    Plain("crawl_bytes_total", "counter", "Bytes of their bodies.", lambda s: s.bytes),
    Plain("crawl_discovered_total", "counter", "URLs that were new.", lambda s: s.discovered),
    Plain("crawl_duplicates_total", "counter", "Links that were known.", lambda s: s.duplicates),
    Plain("crawl_reclaimed_total", "counter", "URLs of silent workers.", lambda s: s.reclaimed),
    Plain("crawl_late_total", "counter", "Results that came too late.", lambda s: s.late),
    Plain("crawl_corrupt_total", "counter", "Records nobody can read.", lambda s: s.corrupt),
    Plain("crawl_balance", "gauge", "URLs that the ledger misses: 0.", lambda s: s.balance),
    Plain("crawl_pages_per_second", "gauge", "As workers told last.", lambda s: s.pages_per_s),
    Plain("crawl_elapsed_seconds", "gauge", "For how long it has run.", lambda s: s.elapsed_s),
    Plain("crawl_estimate_seconds", "gauge", "What is left takes so long.", lambda s: s.estimate_s),
    Plain("crawl_hosts", "gauge", "Hosts that are known.", lambda s: s.hosts),
    Plain("crawl_seeds_waiting", "gauge", "Seeds not taken in yet.", lambda s: s.seeds_waiting),
    Plain("crawl_links_waiting", "gauge", "Links without room.", lambda s: s.memory.waiting),
    Plain("crawl_patterns_set_aside", "gauge", "URL patterns.", lambda s: len(s.patterns)),
    Plain("crawl_seen_items", "gauge", "URLs in the seen filter.", lambda s: s.seen.items),
    Plain("crawl_seen_capacity", "gauge", "What it has room for.", lambda s: s.seen.capacity),
    Plain(
        "crawl_heartbeat_age_seconds",
        "gauge",
        "Silence of the worker that has been silent longest.",
        lambda s: max((one.heartbeat_s or 0.0 for one in s.workers), default=None),
    ),
    Plain(
        "crawl_workers_memory_bytes",
        "gauge",
        "Of all workers together.",
        lambda s: sum(one.memory for one in s.workers if one.alive),
    ),
    Plain(
        "crawl_largest_worker_memory_bytes",
        "gauge",
        "Of the largest of them.",
        lambda s: max((one.memory for one in s.workers if one.alive), default=None),
    ),
)


def exposition(found: Iterable[Status | str]) -> str:
    """As Prometheus reads it. A crawl whose records cannot be read is only counted."""
    every = list(found)
    return text(families([one for one in every if isinstance(one, Status)], len(every)))


def families(crawls: Sequence[Status], count: int) -> list[Family]:
    """All metrics of these crawls."""
    return [
        _single("crawl_crawls", "Crawls on this Redis.", count),
        *(_plain(one, crawls) for one in PLAIN),
        _states(crawls),
        _urls(crawls),
        _workers(crawls),
        _by("reason", Family(*DEAD), crawls, lambda now: now.reasons),
        _by("reason", Family(*FILTERED), crawls, lambda now: now.filtered),
        _by("status", Family(*RESPONSES), crawls, lambda now: now.statuses),
        _by("doing", Family(*DOING), crawls, lambda now: now.hosts_by_doing),
        _seen_error(crawls),
        _hosts("crawl_host_queued", "URLs of the slowest hosts.", crawls, "queued", "slowest"),
        _hosts("crawl_host_failures", "Failures in a row.", crawls, "failures", "slowest"),
        _hosts("crawl_host_held_seconds", "Hosts left alone.", crawls, "held_s", "held"),
        *_memory(crawls),
    ]


def _single(name: str, about: str, value: float) -> Family:
    family = Family(name, "gauge", about)
    family.add(value)
    return family


def _plain(one: Plain, crawls: Sequence[Status]) -> Family:
    family = Family(one.name, one.kind, one.help)
    for now in crawls:
        family.add(one.value(now), crawl=now.crawl)
    return family


def _states(crawls: Sequence[Status]) -> Family:
    family = Family("crawl_state", "gauge", "1 for the state that the crawl is in.")
    for now in crawls:
        for state in STATES:
            family.add(float(now.state == state), crawl=now.crawl, state=state)
    return family


def _urls(crawls: Sequence[Status]) -> Family:
    family = Family("crawl_urls", "gauge", "The ledger: URLs by state.")
    for now in crawls:
        for state in ("queued", "delayed", "leased", "done", "dead"):
            family.add(getattr(now, state), crawl=now.crawl, state=state)
        family.add(sum(now.filtered.values()), crawl=now.crawl, state="filtered")
    return family


def worker_state(worker: WorkerStatus) -> str:
    """In a word: alive, late with its heartbeat, or silent, so that it counts as dead."""
    if not worker.alive:
        return "silent"
    return "late" if worker.missed else "alive"


def _workers(crawls: Sequence[Status]) -> Family:
    family = Family("crawl_workers", "gauge", "Workers: alive, late with a heartbeat, silent.")
    for now in crawls:
        states = [worker_state(worker) for worker in now.workers]
        for state in ("alive", "late", "silent"):
            family.add(states.count(state), crawl=now.crawl, state=state)
    return family


def _by(
    label: str,
    family: Family,
    crawls: Sequence[Status],
    counts: Callable[[Status], Mapping[str, int]],
) -> Family:
    """Counts by a word, the largest first, the rest together."""
    for now in crawls:
        ranked = sorted(counts(now).items(), key=lambda item: (-item[1], item[0]))
        for word, count in ranked[:MOST_VALUES]:
            family.add(count, crawl=now.crawl, **{label: word})
        rest = sum(count for _, count in ranked[MOST_VALUES:])
        family.add(rest or None, crawl=now.crawl, **{label: OTHER})
    return family


def _seen_error(crawls: Sequence[Status]) -> Family:
    about = "Share of new URLs that the seen filter takes for known."
    family = Family("crawl_seen_error_ratio", "gauge", about)
    for now in crawls:
        family.add(now.seen.expected_fp, crawl=now.crawl, kind="expected")
        family.add(now.seen.measured_fp, crawl=now.crawl, kind="measured")
    return family


def _hosts(name: str, about: str, crawls: Sequence[Status], what: str, which: str) -> Family:
    """Of the few hosts that a status names."""
    family = Family(name, "gauge", about)
    for now in crawls:
        some: tuple[HostStatus, ...] = getattr(now, which)
        for host in some:
            family.add(getattr(host, what), crawl=now.crawl, host=host.host)
    return family


def _memory(crawls: Sequence[Status]) -> list[Family]:
    """Redis's, which all crawls share."""
    begun = [now for now in crawls if now.epoch]
    if not begun:
        return []
    memory = begun[-1].memory
    return [
        _single("crawl_redis_memory_bytes", "Memory that Redis uses.", memory.used),
        _single("crawl_redis_memory_limit_bytes", "Its maxmemory, 0 for none.", memory.limit),
    ]
