"""Freshness by policy and budget, in fast time, on a web whose pages change at random.

The code that decides is the crawler's own (discover/freshness.py): the same estimates, and the same
price, found again and again from some pages drawn by lot. `ours` knows nothing of a page at first,
and half of the pages never say when they were changed; its freshness is measured in the last third
of `--visits`, so what is paid for learning before that does not count, and what is not learned by
then does. `known` is the same code if it is told all rates.

`best` is what the budget allows somebody who knows all rates, by formula; `uniform` and
`proportional` are what those come to.
"""

from __future__ import annotations

import argparse
import heapq
import platform
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from math import exp
from multiprocessing import Pool
from typing import NamedTuple

from benchmarks import plots
from benchmarks.common import PROJECT, Row, publish
from crawlproj.discover.freshness import Demand, Policy, estimate, freshness, observe
from crawlproj.discover.refreshing import (
    DRAWN,
    KEPT_OF_PRICE,
    KEPT_OF_RATE,
    mean,
    next_asked_for,
)
from crawlproj.frontier.visits import History

DAY_S = 86_400.0
CENSUSES = 20
"""In the mean interval between two visits to a page."""
SIGMA = 1.5
SAVED_S = 5.0
LONGEST = 100
"""Times the mean interval of the budget: the longest age."""
KNOWN_VISITS = 6.0
"""To a page, on average, where nothing has to be learned."""

BUDGETS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Visits to a page a day, on average, where the median page changes once a day."""

PLOT = PROJECT / "docs" / "plots" / "refresh.svg"


class Page(NamedTuple):
    importance: float
    rate: float
    says_when: bool


@dataclass
class Web:
    """Pages that change, and what a crawler has seen of them."""

    pages: list[Page]
    made: random.Random
    seen_s: list[float] = field(default_factory=list)
    changed_s: list[float] = field(default_factory=list)
    """When each has changed for the first time since it was last seen, or will."""
    histories: list[History] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.seen_s = [0.0] * len(self.pages)
        self.changed_s = [self.made.expovariate(page.rate) for page in self.pages]
        self.histories = [History()] * len(self.pages)

    def visit(self, number: int, now_s: float) -> None:
        page, interval_s = self.pages[number], now_s - self.seen_s[number]
        is_changed = self.changed_s[number] <= now_s
        age_s = None
        if page.says_when and is_changed:
            # The last change: as long ago as the next is ahead, and not before the first.
            last_s = now_s - self.made.expovariate(page.rate)
            age_s = now_s - max(last_s, self.changed_s[number])
        self.histories[number] = observe(
            self.histories[number], interval_s, is_changed=is_changed, age_s=age_s
        )
        self.seen_s[number] = now_s
        if is_changed:
            self.changed_s[number] = now_s + self.made.expovariate(page.rate)


def make_pages(count: int, made: random.Random, says_when: float) -> list[Page]:
    return [
        Page(
            made.choice((1, 20, 40, 60, 80, 100)),
            exp(made.gauss(0, SIGMA)) / DAY_S,
            made.random() < says_when,
        )
        for _ in range(count)
    ]


def by_formula(pages: list[Page], policy: Policy, visits_per_s: float) -> float:
    """The freshness that a policy comes to for somebody who knows all rates."""
    demands = [Demand(page.importance, page.rate) for page in pages]
    price = policy.price(demands, visits_per_s)
    gained = sum(
        one.importance * freshness(one.rate, policy.interval_s(one, price)) for one in demands
    )
    return gained / sum(one.importance for one in demands)


class Simulation:
    """One crawler with a budget, for some days; freshness is measured in the last third of them."""

    def __init__(self, web: Web, visits_per_s: float, days: float, *, is_known: bool) -> None:
        self.web = web
        self.is_known = is_known
        self.budget_per_s = visits_per_s
        self.end_s = days * DAY_S
        self.measured_from_s = self.end_s * 2 / 3
        self.usual_s = len(web.pages) / visits_per_s
        self.policy = Policy(longest_s=LONGEST * self.usual_s)
        self.usual_rate = 1 / self.usual_s
        self.price = self.asked_for = 0.0
        self.left = self.idle = 0.0
        self.most_left = max(1.0, SAVED_S * visits_per_s)
        self.due: list[tuple[float, int]] = []
        self.due_s = [0.0] * len(web.pages)
        self.fresh_s = 0.0
        self.visits = 0

    def run(self) -> float:
        """The share of the time that pages were fresh, by their importance."""
        self._start()
        now_s = census_s = 0.0
        while now_s < self.end_s:
            now_s += 1.0 / self.budget_per_s
            self._wake(now_s)
            if now_s >= census_s:
                census_s = now_s + self.usual_s / CENSUSES
                self._census(self.web.made.sample(range(len(self.web.pages)), DRAWN))
        for number in range(len(self.web.pages)):
            self._account(number, self.end_s)
        important = sum(page.importance for page in self.web.pages)
        return self.fresh_s / important / (self.end_s - self.measured_from_s)

    def _start(self) -> None:
        """The first pass spreads over the first interval."""
        self._census(range(len(self.web.pages)))
        self.due_s = [self.web.made.random() * self.usual_s for _ in self.web.pages]
        self.due = [(due_s, number) for number, due_s in enumerate(self.due_s)]
        heapq.heapify(self.due)

    def _wake(self, now_s: float) -> None:
        """Visit what is due, with what one visit's time has earned (lua/wake_resting.lua)."""
        self.left = min(self.left + 1, self.most_left)
        while self.left >= 1 and self.due and self.due[0][0] <= now_s:
            due_s, number = heapq.heappop(self.due)
            if due_s == self.due_s[number]:
                self.left -= 1
                self._visit(number, now_s)
        self.idle = self.left / self.most_left if self.left >= 1 else 0.0

    def _visit(self, number: int, now_s: float) -> None:
        self._account(number, now_s)
        self.visits += now_s > self.measured_from_s
        self.web.visit(number, now_s)
        self._schedule(number, self._demand(number))

    def _account(self, number: int, now_s: float) -> None:
        """How long it was fresh since its last visit: the mean of what chance can make of that,
        which tells policies apart by fewer pages than one outcome of it does."""
        seen_s, rate = self.web.seen_s[number], self.web.pages[number].rate
        since_s = max(seen_s, self.measured_from_s)
        if now_s > since_s:
            fresh_s = (exp(rate * (seen_s - since_s)) - exp(rate * (seen_s - now_s))) / rate
            self.fresh_s += self.web.pages[number].importance * fresh_s

    def _demand(self, number: int) -> Demand:
        page = self.web.pages[number]
        if self.is_known:
            return Demand(page.importance, page.rate)
        return Demand(page.importance, *estimate(self.web.histories[number], self.usual_rate))

    def _schedule(self, number: int, page: Demand) -> None:
        due_s = self.web.seen_s[number] + self.policy.interval_s(page, self.price)
        if due_s != self.due_s[number]:
            self.due_s[number] = due_s
            heapq.heappush(self.due, (due_s, number))

    def _census(self, drawn: Sequence[int]) -> None:
        pages = [self._demand(number) for number in drawn]
        share = len(pages) / len(self.web.pages)
        self.asked_for = next_asked_for(self.asked_for, self.idle, 1 / CENSUSES)
        asked = self.asked_for * self.budget_per_s * share
        price = self.policy.price(pages, asked, self.price or None)
        usual = sum(page.rate for page in pages) / len(pages)
        self.price = mean(self.price or price, price, KEPT_OF_PRICE)
        self.usual_rate = mean(self.usual_rate, usual, KEPT_OF_RATE)
        for number, page in zip(drawn, pages, strict=True):
            self._schedule(number, page)


def simulate(
    budget: float, count: int, visits: float, says_when: float, *, is_known: bool
) -> tuple[float, float]:
    """The freshness that comes of so many visits to a page a day, and the share of the budget that
    was used."""
    made = random.Random(20)
    web = Web(make_pages(count, made, says_when), made)
    per_s = budget * count / DAY_S
    one = Simulation(web, per_s, visits / budget, is_known=is_known)
    fresh = one.run()
    return fresh, one.visits / (per_s * (one.end_s - one.measured_from_s))


def compare(budget: float, count: int, visits: float, says_when: float) -> Row:
    """All policies at one budget of visits to a page a day."""
    pages = make_pages(count, random.Random(20), says_when)
    per_s = budget * count / DAY_S
    known, _ = simulate(budget, count, KNOWN_VISITS, says_when, is_known=True)
    ours, used = simulate(budget, count, visits, says_when, is_known=False)
    best = by_formula(pages, Policy(), per_s)
    return {
        "visits_a_day": budget,
        "best": best,
        "known": known,
        "ours": ours,
        "of_best": ours / best,
        "uniform": by_formula(pages, Policy("uniform"), per_s),
        "proportional": by_formula(pages, Policy("proportional"), per_s),
        "budget_used": used,
    }


def plot(rows: Sequence[Row]) -> str:
    """Freshness by budget, a line for each policy."""
    series = {
        name: [(row["visits_a_day"], row[name]) for row in rows]
        for name in ("best", "ours", "uniform", "proportional")
    }
    title = "Freshness: the share of pages that are as they were last seen"
    return plots.lines(title, "visits to a page a day, on average", series, is_log=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.refresh", description=__doc__)
    add = parser.add_argument
    add("--pages", type=int, default=100_000, help="[100000]")
    add("--visits", type=float, default=60, help="to a page, on average [60]")
    add("--says-when", type=float, default=0.5, help="share of pages with Last-Modified [0.5]")
    add("--budgets", type=float, nargs="*", default=BUDGETS, help="visits to a page a day")
    options = parser.parse_args()
    work = partial(compare, count=options.pages, visits=options.visits, says_when=options.says_when)
    with Pool(2) as pool:
        rows = pool.map(work, options.budgets, chunksize=1)
    about = {"python": platform.python_version()}  # it is of no consequence how fast it runs
    publish("refresh", about, vars(options), rows)
    PLOT.write_text(plot(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
