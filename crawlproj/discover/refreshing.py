"""Revisits, for one worker: which pages are woken, what each visit has found, when the next is due.

How often a page is visited follows from the price of a visit (freshness.py), which is the same for
the whole crawl. Every few seconds one worker takes a census: it draws some of the pages that rest,
finds the price at which all pages together ask for what the budget allows, tells it to all, and has
those that were drawn be due by it. The budget itself is kept by a script of the frontier's
(lua/wake_resting.lua), whatever the price.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

from crawlproj.discover.conditional import (
    CHANGED,
    GONE,
    IS_GONE,
    NEW,
    NOT_MODIFIED,
    UNCHANGED,
    ask_if_changed,
    date_of,
    seconds_of,
)
from crawlproj.discover.freshness import Demand, Policy, estimate, importance_of, observe
from crawlproj.discover.sitemap_reading import SITEMAP_READ
from crawlproj.frontier import resting
from crawlproj.frontier.combined import all_of
from crawlproj.frontier.levels import priority_of
from crawlproj.frontier.meta_keys import SITEMAP, STATUSES, VISIT
from crawlproj.frontier.outcomes import BAD_RECORD, Attempt
from crawlproj.frontier.records import encode_visited, meta_of
from crawlproj.frontier.resting import Census, Resting
from crawlproj.frontier.visits import DIGEST_BYTES, NO_DIGEST, Found, History, Visit, unpack_visit
from crawlproj.politeness.robots_memory import UNREACHABLE

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.http import Response

    from crawlproj.frontier.frontier import Frontier
    from crawlproj.frontier.messages import Settlement
    from crawlproj.frontier.shard import Shard
    from crawlproj.urls import Url

CENSUS_EVERY_MS = 5000
DRAWN = 500
"""Pages that a census looks at, on all shards together, which takes some twenty milliseconds: the
price is then right within some percent, and the mean of several within less."""

HINTED_AT_ONCE = 500
"""Pages that are looked up together, of the 50,000 that a sitemap may list: neither the event loop
nor Redis does anything else meanwhile."""

KEPT_OF_PRICE, KEPT_OF_RATE = 0.8, 0.9
"""How much of the last census stays where not all pages were looked at."""

LEAST_ASKED_FOR, MOST_ASKED_FOR = 1.02, 2.0
"""Pages are to ask for a little more than the budget has, so that all of it is used: the script
then lets each wait a little longer."""

MUCH_SAVED = 0.5
"""Of what can be saved of the budget: so much of it lies idle."""

LARGEST_STEP = 0.05
"""From one census to the next, of what pages are to ask for."""


class _Drawn(NamedTuple):
    shard: Shard
    total: int
    """Pages that rest there."""
    pages: list[Resting]


class Refresher:
    """Makes due pages come, and done ones rest."""

    def __init__(self, frontier: Frontier, statuses: Iterable[int] = ()) -> None:
        """`statuses` are those, other than of success, with which pages come to their callback in
        any case."""
        plan = frontier.plan
        self._frontier = frontier
        self._policy = Policy(plan.refresh_policy, plan.refresh_shortest_s, plan.refresh_longest_s)
        self._budget_per_s = plan.revisits_per_s
        self._statuses = tuple(statuses)
        self._census: Census | None = None
        self._read_ms, self._read_at_s = 0, 0.0

    @classmethod
    def for_spider(cls, frontier: Frontier, spider: Spider) -> Refresher:
        """With the statuses that it handles, by itself or by a setting."""
        allowed = spider.settings.getlist("HTTPERROR_ALLOWED_CODES")
        return cls(frontier, getattr(spider, STATUSES, None) or map(int, allowed))

    # Waking

    async def wake(self, wanted: int) -> None:
        """Let pages that are due go to their queues, before so many URLs are leased."""
        shards = self._frontier.shards
        told = await all_of(resting.wake(one, wanted, CENSUS_EVERY_MS) for one in shards)
        self._read_ms, self._read_at_s = told[0].now_ms, time.monotonic()
        self._census = told[0].census or self._census
        if told[0].is_turn:
            await self.take_census(saved=min(one.saved for one in told))

    async def take_census(self, saved: float = 0.0) -> None:
        """Find the price for all, and what each shard has of the budget by it. `saved` is how much
        of the budget lies idle, of what can."""
        shards = self._frontier.shards
        each = max(1, DRAWN // len(shards))
        drawn = [
            _Drawn(shard, await resting.count(shard), await resting.sample(shard, each))
            for shard in shards
        ]
        if not any(one.pages for one in drawn):
            return
        self._census = self._found_by(drawn, saved)
        wishes = [self._asked_of(one) for one in drawn]
        for one, wish in zip(drawn, wishes, strict=True):
            share = wish / sum(wishes) if sum(wishes) else 1 / len(drawn)
            due_ms = {page.number: self._due_ms(page) for page in one.pages}
            rate = self._budget_per_s * share
            await resting.reschedule(one.shard, due_ms, self._census, rate)

    def _found_by(self, drawn: Sequence[_Drawn], saved: float) -> Census:
        total = sum(one.total for one in drawn)
        usual = self._census.usual_rate if self._census else self._budget_per_s / total
        pages = [self._demand(page, usual) for one in drawn for page in one.pages]
        share, guess = len(pages) / total, self._census.price if self._census else None
        before, usual_s = (
            self._census.asked_for if self._census else 0.0,
            total / self._budget_per_s,
        )
        asked_for = next_asked_for(before, saved, CENSUS_EVERY_MS / 1000 / usual_s)
        price = self._policy.price(pages, asked_for * self._budget_per_s * share, guess)
        rate = sum(page.rate for page in pages) / len(pages)
        if self._census is None:
            return Census(price, rate, asked_for)
        return Census(
            mean(self._census.price, price, KEPT_OF_PRICE if share < 1 else 0),
            mean(self._census.usual_rate, rate, KEPT_OF_RATE),
            asked_for,
        )

    def _asked_of(self, drawn: _Drawn) -> float:
        """Visits a second that the pages of a shard ask for."""
        assert self._census is not None
        if not drawn.pages:
            return 0.0
        pages = [self._demand(page, self._census.usual_rate) for page in drawn.pages]
        asked = self._policy.visits_per_s(pages, self._census.price)
        return asked * drawn.total / len(pages)

    def _due_ms(self, page: Resting) -> float:
        """One that is due and waits for its host keeps its turn: it would else get a new one,
        behind all others that wait."""
        if page.visit.failures:
            return page.due_ms
        due_ms = page.visit.at_ms + self._interval_ms(page.priority, page.visit.history)
        return page.due_ms if page.waits and due_ms <= self._now_ms() else due_ms

    def _demand(self, page: Resting, usual_rate: float) -> Demand:
        known = estimate(page.visit.history, usual_rate)
        return Demand(importance_of(page.priority), *known)

    def _interval_ms(self, priority: int, history: History) -> int:
        """Until there has been a census, every page is due soon: that tells when."""
        if self._census is None:
            return round(self._policy.shortest_s * 1000)
        known = estimate(history, self._census.usual_rate)
        page = Demand(importance_of(priority), *known)
        return round(self._policy.interval_s(page, self._census.price) * 1000)

    async def hint(self, modified_s: Mapping[Url, int]) -> None:
        """Pages have been modified at these times, by what somebody says: those that rest and were
        seen before that are due."""
        pages = iter(modified_s.items())
        while some := dict(islice(pages, HINTED_AT_ONCE)):
            await self._hint(some)

    async def _hint(self, modified_s: Mapping[Url, int]) -> None:
        now_ms = self._now_ms()
        by_shard: dict[int, dict[bytes, int]] = {}
        for url, seconds in modified_s.items():
            shard = self._frontier.shard_of(url.host)
            by_shard.setdefault(shard.number, {})[resting.number_of(*url)] = seconds
        for number, hinted in by_shard.items():
            shard = self._frontier.shards[number]
            due_ms = {
                page.number: max(now_ms, page.visit.at_ms + round(self._policy.shortest_s * 1000))
                for page in await resting.among(shard, list(hinted))
                if page.visit.at_ms < hinted[page.number] * 1000 <= now_ms < page.due_ms
                and not page.waits
            }
            if due_ms:
                await resting.reschedule(shard, due_ms)

    # Visits

    def prepare(self, request: Request) -> None:
        """Ask for a page that was fetched before only if it has changed."""
        _, packed = request.meta[VISIT]
        visit = unpack_visit(packed)
        if visit is None:
            del request.meta[VISIT]
        else:
            statuses = (*self._statuses, *GONE)
            ask_if_changed(request, visit.etag, date_of(visit.modified_s), statuses)

    def note(self, attempt: Attempt, response: Response, digest: bytes) -> str:
        """Note what a visit has found, by a digest of the content; returns it in a word."""
        before = _last_visit(attempt)
        etag = (response.headers.get("ETag") or b"").strip()
        modified_s = seconds_of((response.headers.get("Last-Modified") or b"").decode("latin-1"))
        digest = digest[:DIGEST_BYTES] or NO_DIGEST
        if response.status in GONE:
            return IS_GONE
        if before is None:
            change = NEW
        elif response.status == NOT_MODIFIED:
            change, digest = UNCHANGED, before.digest
            etag, modified_s = etag or before.etag, modified_s or before.modified_s
        else:
            is_same = _is_same(before, digest, etag, modified_s)
            change = UNCHANGED if is_same else CHANGED
        attempt.found = Found(change, digest, modified_s, etag)
        return change

    def settle(self, attempt: Attempt, settlement: Settlement) -> Settlement:
        """Let a page that was fetched rest, and one that could not be had for now: it may be back
        when it is due again. One that is gone is given up."""
        before, now_ms = _last_visit(attempt), self._now_ms() - settlement.ended_ago_ms
        if attempt.found is not None and settlement.verdict in ("done", "filtered"):
            visit = self._after(before, attempt.found, now_ms)
            delay_ms = self._interval_ms(_priority(attempt), visit.history)
        elif before is not None and _may_be_back(attempt, settlement):
            visit = before._replace(failures=min(before.failures + 1, 1000))
            age_s = max((now_ms - before.at_ms) / 1000, self._policy.shortest_s)
            delay_ms = round(min(age_s, self._policy.longest_s) * 1000)
            settlement = _done_again(attempt, settlement)
        else:
            return settlement
        entry = encode_visited(attempt.lease.entry, _priority(attempt), visit.pack())
        return replace(settlement, entry=entry, delay_ms=delay_ms)

    def _after(self, before: Visit | None, found: Found, now_ms: int) -> Visit:
        age_s = now_ms / 1000 - found.modified_s if found.modified_s else None
        if before is not None:
            interval_s = max(0.001, (now_ms - before.at_ms) / 1000)
            is_changed = found.change == CHANGED
            history = observe(before.history, interval_s, is_changed=is_changed, age_s=age_s)
        elif age_s is not None and age_s >= 0:
            history = History(1.0, 0.0, age_s)  # changed once, and not since
        else:
            history = History()
        return Visit(now_ms, history, found.digest, found.modified_s, found.etag)

    def _now_ms(self) -> int:
        """By the crawl's clock, as it was told with the last lease."""
        return self._read_ms + round((time.monotonic() - self._read_at_s) * 1000)


def next_asked_for(before: float, saved: float, passed: float) -> float:
    """What pages are to ask for, as times the budget: more, while much of that lies idle (what
    estimates get wrong, or hosts are too slow for), and less again when it does not. `passed` is
    the time since the last census, of the usual interval between two visits to a page: it takes
    about one of those until pages ask as they were told to."""
    step = min(LARGEST_STEP, passed)
    wanted = before * (1 + step if saved > MUCH_SAVED else 1 - step / 2)
    return min(MOST_ASKED_FOR, max(LEAST_ASKED_FOR, wanted))


def mean(before: float, found: float, kept: float) -> float:
    """Between what was and what is found, as logarithms; `kept` of the former."""
    return exp(kept * log(before) + (1 - kept) * log(found))


def _last_visit(attempt: Attempt) -> Visit | None:
    visited = attempt.visited
    return unpack_visit(visited[1]) if visited else None


def _is_same(before: Visit, digest: bytes, etag: bytes, modified_s: int) -> bool:
    """By its content; where the body was not read, by what its server says of it."""
    if NO_DIGEST in (digest, before.digest):
        return (etag, modified_s) == (before.etag, before.modified_s)
    return digest == before.digest


def _priority(attempt: Attempt) -> int:
    visited = attempt.visited
    return visited[0] if visited else priority_of(attempt.lease.level)


def _done_again(attempt: Attempt, settlement: Settlement) -> Settlement:
    """What it was before: a page that is done, or a sitemap."""
    if SITEMAP in meta_of(attempt.lease.host, attempt.lease.entry):
        return replace(settlement, verdict="filtered", reason=SITEMAP_READ)
    return replace(settlement, verdict="done", reason="")


def _may_be_back(attempt: Attempt, settlement: Settlement) -> bool:
    """Whether a page was given up for a reason that may pass, as that its host's robots.txt could
    not be had."""
    if settlement.verdict == "filtered":
        return settlement.reason == UNREACHABLE
    is_ours = attempt.callback_error or settlement.reason == BAD_RECORD
    is_gone = attempt.answered in GONE
    return settlement.verdict == "dead" and not is_ours and not is_gone
