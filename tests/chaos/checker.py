"""The invariants of a crawl, judged from outside: by the origin's log, the files and the frontier.

It is given what was seen and says what is wrong with it, each time with the smallest evidence.
The numbers are those of the promises:

 1 every URL ends in exactly one state, and the counts reconcile at any moment
 2 no seed is lost
 3 at most one lease a URL, and what is settled stays settled
 5 the pause between requests to a host, and its connections, hold over all workers
 6 nothing is fetched that robots.txt forbids
 7 a settled page has its row on disk and its links are known; a second row only after a reclaim
 8 "finished" only when nothing is left
 9 no URL is tried more often than allowed
10 every key carries its shard's tag

(4, how soon the leases of a dead worker are queued again, is measured where workers are killed.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from crawlproj.demo.web import Expected
from crawlproj.frontier import keys
from crawlproj.frontier.finishing import UNSETTLED
from crawlproj.operate.audit import Limits, audit
from crawlproj.operate.request_log import Logged, fetch_counts

SHOWN = 3
ROBOTS_TXT = "/robots.txt"


class Violation(NamedTuple):
    """A promise that was broken, and what shows it."""

    invariant: int
    text: str

    def __str__(self) -> str:
        return f"invariant {self.invariant}: {self.text}"


class Attempt(NamedTuple):
    """A lease as Redis holds it."""

    worker: str
    url: str
    attempts: int


@dataclass(frozen=True)
class Sample:
    """The frontier at one instant."""

    epoch: str
    state: str
    counts: dict[str, int]
    leases: tuple[Attempt, ...]

    @property
    def open(self) -> dict[str, int]:
        return {name: self.counts.get(name, 0) for name in UNSETTLED}

    @property
    def balance(self) -> int:
        filtered = sum(n for name, n in self.counts.items() if name.startswith("filtered:"))
        ended = self.counts.get("done", 0) + self.counts.get("dead", 0) + filtered
        return self.counts.get("discovered", 0) - ended - sum(self.open.values())


@dataclass(frozen=True)
class Evidence:
    """All that can be seen of a crawl that has ended."""

    crawl: str
    expected: Expected
    seeds: Collection[str]
    log: list[Logged]
    pages: list[str]
    failures: list[str]
    status: dict[str, Any]
    redis_keys: list[str]
    delay_s: float
    max_attempts: int


def judge_sample(now: Sample, before: Sample | None, max_attempts: int) -> Iterator[Violation]:
    """What is wrong with the frontier at this instant, or with how it came there."""
    if now.balance:
        yield Violation(1, f"the ledger is off by {now.balance}: {now.counts}")
    if now.counts.get("leased", 0) != len(now.leases):
        counted = now.counts.get("leased", 0)
        yield Violation(1, f"{counted} leases are counted and {len(now.leases)} are there")
    if now.state == "finished" and any(now.open.values()):
        yield Violation(8, f"finished with {now.open}")
    holders = Counter(one.url for one in now.leases if not one.url.endswith(ROBOTS_TXT))
    if twice := _few(url for url, count in holders.items() if count > 1):
        yield Violation(3, f"leased twice: {twice}")
    if tired := _few(one.url for one in now.leases if one.attempts >= max_attempts):
        yield Violation(9, f"leased once more after {max_attempts} attempts: {tired}")
    if before and before.epoch == now.epoch:
        for name in ("done", "dead", "discovered"):
            if now.counts.get(name, 0) < before.counts.get(name, 0):
                yield Violation(3, f"{name} fell from {before.counts[name]} to {now.counts[name]}")


def judge_end(seen: Evidence) -> Iterator[Violation]:
    """What is wrong with a crawl that says it has finished."""
    yield from _ledger(seen)
    yield from _rows(seen)
    yield from _origin(seen)
    tags = (keys.tag(seen.crawl, 0), f"{seen.crawl}:")
    if stray := _few(key for key in seen.redis_keys if not key.startswith(tags)):
        yield Violation(10, f"keys without the tag {tags[0]}: {stray}")


def _ledger(seen: Evidence) -> Iterator[Violation]:
    status, want = seen.status, seen.expected
    if status["state"] != "finished" or any(status[name] for name in UNSETTLED):
        left = {name: status[name] for name in ("state", *UNSETTLED)}
        yield Violation(8, f"the crawl ended with {left}")
    if status["balance"]:
        yield Violation(1, f"the ledger is off by {status['balance']}")
    ended = (status["done"], status["dead"], status["filtered"].get("robots", 0))
    wanted = (len(_with_rows(want)), len(want.missing), len(want.disallowed))
    if ended != wanted:
        reasons = {**status["reasons"], **status["filtered"]}
        yield Violation(1, f"done, dead, forbidden: {ended} where {wanted} are known ({reasons})")


def _rows(seen: Evidence) -> Iterator[Violation]:
    for kind, rows, wanted in (
        ("pages", seen.pages, _with_rows(seen.expected)),
        ("failures", seen.failures, seen.expected.missing),
    ):
        if lost := _few(wanted - set(rows)):
            yield Violation(7, f"no row among the {kind}: {lost}")
        if odd := _few(set(rows) - wanted):
            yield Violation(7, f"a row among the {kind} that should not be: {odd}")
        again = len(rows) - len(set(rows))
        if again > seen.status["reclaimed"]:
            twice = _few(url for url, count in Counter(rows).items() if count > 1)
            reclaimed = seen.status["reclaimed"]
            yield Violation(7, f"{again} rows too many after {reclaimed} reclaims: {twice}")
    if lost := _few(set(seen.seeds) - set(seen.pages)):
        yield Violation(2, f"seeds without a page: {lost}")


def _origin(seen: Evidence) -> Iterator[Violation]:
    counts = fetch_counts(seen.log)
    if unasked := _few(seen.expected.fetched - set(counts)):
        yield Violation(1, f"never asked for: {unasked}")
    if forbidden := _few(seen.expected.disallowed & set(counts)):
        yield Violation(6, f"asked for, though robots.txt forbids it: {forbidden}")
    pages = {url: count for url, count in counts.items() if not url.endswith(ROBOTS_TXT)}
    if often := _few(url for url, count in pages.items() if count > seen.max_attempts):
        yield Violation(9, f"asked for more than {seen.max_attempts} times: {often}")
    for host in audit(seen.log, Limits(seen.delay_s)):
        if host.broken:
            gap, most = host.smallest_gap_s, host.most_at_once
            yield Violation(5, f"{host.host}: a gap of {gap:.3f} s, {most} at a time")


def _with_rows(expected: Expected) -> set[str]:
    return expected.pages | expected.redirects | expected.non_html


def _few(urls: Iterable[str]) -> str:
    """The first of them, and how many more there are."""
    found = sorted(urls)
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more
