"""How often pages change, what a visit is worth, and the price at which a budget is used up."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlproj.discover.freshness import (
    CERTAIN,
    POLICIES,
    Demand,
    Policy,
    estimate,
    freshness,
    importance_of,
    observe,
    worth,
)
from crawlproj.discover.refreshing import next_asked_for
from crawlproj.frontier.visits import History

rates = st.floats(1e-8, 1e2)
importances = st.floats(1, 1000)
demands = st.builds(Demand, importances, rates, st.one_of(st.just(CERTAIN), st.floats(0.5, 100)))


def seen(rate: float, intervals: list[float], *, says_when: bool = False) -> History:
    """What visits at such intervals show of a page that changes at that rate."""
    made = random.Random(7)
    history = History()
    for interval in intervals:
        age = made.expovariate(rate)
        told = age if says_when else None
        history = observe(history, interval, is_changed=age < interval, age_s=told)
    return history


@pytest.mark.parametrize("says_when", [False, True])
@pytest.mark.parametrize("rate", [0.02, 0.2, 1.0, 3.0])
def test_the_rate_of_changes_is_found_from_visits_at_any_intervals(
    rate: float, says_when: bool
) -> None:
    intervals = [0.3 + 1.4 * (n % 7) / 7 for n in range(2000)]
    found = estimate(seen(rate, intervals, says_when=says_when), usual_rate=1.0).rate
    # Of the hundred visits that count, as many as say something.
    assert found == pytest.approx(rate, rel=0.6)


def test_a_page_that_says_when_it_has_changed_is_understood_though_it_always_has() -> None:
    fast = 40.0
    assert estimate(seen(fast, [1.0] * 200), 1.0).rate < fast / 2
    told = estimate(seen(fast, [1.0] * 200, says_when=True), 1.0)
    assert told.rate == pytest.approx(fast, rel=0.3)


@given(usual=rates)
def test_a_page_of_which_nothing_is_known_changes_as_usual(usual: float) -> None:
    assert estimate(History(), usual).rate == pytest.approx(usual)


@given(
    changes=st.floats(0, 1e3),
    changed_s=st.floats(0, 1e9),
    unchanged_s=st.floats(0, 1e9),
    usual=rates,
)
def test_a_rate_is_a_positive_number_whatever_was_seen(
    changes: float, changed_s: float, unchanged_s: float, usual: float
) -> None:
    rate, evidence = estimate(History(changes, changed_s, unchanged_s), usual)
    assert 0 < rate < math.inf
    assert 0 < evidence <= (changes + 1) * 1.01, "no visit tells more than one change"
    more = estimate(History(changes, changed_s, unchanged_s * 2 + 1), usual)
    assert more.rate <= rate * 1.001


@given(page=demands, price=st.floats(1e-9, 1e9))
def test_a_page_is_due_when_a_visit_is_worth_the_price(page: Demand, price: float) -> None:
    interval_s = Policy().interval_s(page, price)
    if interval_s == math.inf:
        assert page.evidence > 1
        most = page.importance / page.rate * page.evidence / (page.evidence - 1)
        assert most <= price * (1 + 1e-6)
    elif Policy().shortest_s < interval_s < 1e11 / page.rate:
        assert worth(page, interval_s) == pytest.approx(price, rel=1e-2)


@given(
    pages=st.lists(demands, min_size=1, max_size=20),
    name=st.sampled_from(sorted(POLICIES)),
    budget=st.floats(1e-3, 1e3),
)
def test_at_the_price_all_pages_ask_for_what_the_budget_has(
    pages: list[Demand], name: str, budget: float
) -> None:
    policy = Policy(name, shortest_s=0.01, longest_s=1e6)
    asked = policy.visits_per_s(pages, policy.price(pages, budget))
    # No more than all at their shortest intervals, no less than all at their longest; a page that
    # changes too fast comes or goes at once.
    least, most = len(pages) / policy.longest_s, len(pages) / policy.shortest_s
    assert asked <= max(budget, least) * 1.01
    if name != "optimal":
        assert asked >= min(budget, most) * 0.99


def test_no_other_intervals_give_more_freshness_for_the_same_visits() -> None:
    """Against the best of a grid, for two pages that share ten visits."""
    pages = [Demand(60, 0.5), Demand(20, 4.0)]
    policy, budget = Policy(), 10.0

    def fresh(first: float) -> float:
        shares = (first, budget - first)
        return sum(
            page.importance * freshness(page.rate, 1 / visits)
            for page, visits in zip(pages, shares, strict=True)
        )

    price = policy.price(pages, budget)
    ours = 1 / policy.interval_s(pages[0], price)
    assert fresh(ours) == pytest.approx(max(fresh(n / 1000) for n in range(1, 10_000)), rel=1e-4)


def test_a_page_that_changes_too_fast_is_left_for_the_longest_interval() -> None:
    pages = [Demand(1, 0.1)] * 10 + [Demand(1, 1000.0)]
    policy = Policy(longest_s=500)
    price = policy.price(pages, 1.0)
    assert policy.interval_s(pages[-1], price) == 500
    assert policy.interval_s(pages[0], price) == pytest.approx(10, rel=0.01)


def test_uniform_and_proportional_share_visits_as_they_say() -> None:
    pages = [Demand(1, 1.0), Demand(100, 3.0)]
    uniform = Policy("uniform")
    assert uniform.interval_s(pages[0], uniform.price(pages, 4.0)) == pytest.approx(0.5, rel=1e-2)
    proportional = Policy("proportional")
    price = proportional.price(pages, 4.0)
    found = [1 / proportional.interval_s(page, price) for page in pages]
    assert found == pytest.approx([1.0, 3.0], rel=1e-2)


@pytest.mark.parametrize(("priority", "importance"), [(-5, 1), (0, 1), (40, 40), (1000, 1000)])
def test_importance_is_the_priority_and_never_nothing(priority: int, importance: float) -> None:
    assert importance_of(priority) == importance


@given(
    history=st.builds(History, *[st.floats(0, 1e9)] * 3),
    interval=st.floats(0.001, 1e9),
    is_changed=st.booleans(),
)
def test_more_is_known_after_each_visit_and_older_ones_fade(
    history: History, interval: float, is_changed: bool
) -> None:
    after = observe(history, interval, is_changed=is_changed)
    assert after.changes == pytest.approx(history.changes * 0.99 + is_changed)
    known_s = after.changed_s + after.unchanged_s
    assert known_s == pytest.approx((history.changed_s + history.unchanged_s) * 0.99 + interval)


def test_pages_ask_for_more_while_the_budget_lies_idle_and_for_less_when_it_does_not() -> None:
    asked = next_asked_for(0.0, saved=0.0, passed=1)
    assert asked == pytest.approx(1.02)
    for _ in range(5):
        asked = next_asked_for(asked, saved=0.9, passed=1)
    assert asked == pytest.approx(1.02 * 1.05**5)
    for _ in range(100):
        asked = next_asked_for(asked, saved=0.9, passed=1)
    assert asked == 2
    for _ in range(100):
        asked = next_asked_for(asked, saved=0.1, passed=1)
    assert asked == pytest.approx(1.02)


def test_what_pages_ask_for_is_changed_no_faster_than_they_can_follow() -> None:
    asked = 1.02
    for _ in range(1000):  # for as long as from one visit to a page to the next
        asked = next_asked_for(asked, saved=1.0, passed=1 / 1000)
    assert asked == pytest.approx(min(2, 1.02 * math.e), rel=0.01)
    assert next_asked_for(1.1, saved=1.0, passed=1 / 1000) == pytest.approx(1.1 * 1.001)


def test_a_page_that_has_changed_twice_by_bad_luck_is_not_given_up() -> None:
    """By its likeliest rate alone it would be: a visit is never worth the price."""
    page = Demand(1, *estimate(seen(30.0, [1.0, 1.0], says_when=True), 1.0))
    sure = page._replace(evidence=CERTAIN)
    price = 1.2 * page.importance / page.rate
    assert Policy().interval_s(sure, price) == math.inf
    assert Policy().interval_s(page, price) < 10


def test_what_a_visit_is_worth_is_the_mean_over_the_rates_that_are_likely() -> None:
    made = random.Random(5)
    page, interval_s = Demand(10, 2.0, 3.0), 0.7
    drawn = [made.gammavariate(page.evidence, page.rate / page.evidence) for _ in range(200_000)]
    mean = sum(worth(Demand(10, rate), interval_s) for rate in drawn) / len(drawn)
    assert worth(page, interval_s) == pytest.approx(mean, rel=0.01)
