"""How far ahead a worker leases, and what counts as waiting for Redis."""

from __future__ import annotations

import pytest

from crawlproj.worker.prefetch import DEEPEST, Supply

USUAL = 32


@pytest.fixture
def supply() -> Supply:
    return Supply(USUAL)


def test_time_without_a_url_counts_while_a_host_is_due(supply: Supply) -> None:
    supply.leased(USUAL, USUAL, -1, now=1.0)
    supply.missed(now=2.0)
    supply.missed(now=2.2)
    supply.leased(USUAL, USUAL, -1, now=2.5)
    assert supply.waited_s == pytest.approx(0.5)


def test_time_in_which_the_worker_is_busy_does_not_count(supply: Supply) -> None:
    supply.leased(USUAL, USUAL, -1, now=1.0, busy_s=0.5)
    supply.missed(now=2.0, busy_s=1.0)
    supply.leased(USUAL, USUAL, -1, now=2.5, busy_s=1.4)
    assert supply.waited_s == pytest.approx(0.1)
    supply.missed(now=3.0, busy_s=2.0)
    supply.leased(USUAL, USUAL, -1, now=3.1, busy_s=2.3)
    assert supply.waited_s == pytest.approx(0.1)


def test_time_in_which_every_host_rests_does_not_count(supply: Supply) -> None:
    supply.leased(3, USUAL, next_due_ms=1000, now=1.0)
    supply.missed(now=1.1)
    supply.leased(0, USUAL, next_due_ms=500, now=1.5)
    supply.leased(5, USUAL, next_due_ms=-1, now=2.3)
    assert supply.waited_s == pytest.approx(0.3)


def test_an_empty_frontier_makes_nobody_wait(supply: Supply) -> None:
    supply.leased(0, USUAL, next_due_ms=-1, now=1.0)
    supply.missed(now=2.0)
    supply.leased(1, USUAL, next_due_ms=-1, now=60.0)
    assert supply.waited_s == 0


def test_a_settled_page_makes_its_host_due_after_its_pause(supply: Supply) -> None:
    supply.leased(1, USUAL, next_due_ms=-1, now=1.0)
    supply.missed(now=1.0)
    supply.released(due_at=3.0)
    supply.leased(1, USUAL, next_due_ms=-1, now=3.25)
    assert supply.waited_s == pytest.approx(0.25)


def test_the_buffer_grows_while_it_runs_dry_up_to_a_bound(supply: Supply) -> None:
    depths = []
    for second in range(10):
        supply.missed(now=second + 0.1)
        supply.leased(USUAL, USUAL, -1, now=second + 0.2)
        depths.append(supply.depth)
    assert depths[:2] == [2 * USUAL, 4 * USUAL]
    assert depths[-1] == DEEPEST * USUAL


def test_the_buffer_shrinks_again_when_it_never_runs_dry(supply: Supply) -> None:
    supply.missed(now=0.1)
    supply.leased(USUAL, USUAL, -1, now=0.2)
    for second in range(100):
        supply.leased(USUAL, USUAL, -1, now=second)
    assert supply.depth == USUAL


def test_the_buffer_does_not_grow_where_there_is_no_more_to_lease(supply: Supply) -> None:
    for second in range(10):
        supply.missed(now=second + 0.1)
        supply.released(due_at=second + 0.1)
        supply.leased(8, USUAL, -1, now=second + 0.2)
    assert supply.depth == USUAL
    assert supply.waited_s > 0
