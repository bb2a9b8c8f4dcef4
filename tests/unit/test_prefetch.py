"""How far ahead a worker leases, and what counts as waiting for Redis."""

from __future__ import annotations

import pytest

from crawlproj.worker.prefetch import DEEPEST, Prefetch

USUAL = 32


@pytest.fixture
def prefetch() -> Prefetch:
    return Prefetch(USUAL)


def test_time_without_a_url_counts_while_a_host_is_due(prefetch: Prefetch) -> None:
    prefetch.leased(USUAL, USUAL, -1, now=1.0)
    prefetch.missed(now=2.0)
    prefetch.missed(now=2.2)
    prefetch.leased(USUAL, USUAL, -1, now=2.5)
    assert prefetch.waited_s == pytest.approx(0.5)


def test_time_in_which_the_worker_is_busy_does_not_count(prefetch: Prefetch) -> None:
    prefetch.leased(USUAL, USUAL, -1, now=1.0, busy_s=0.5)
    prefetch.missed(now=2.0, busy_s=1.0)
    prefetch.leased(USUAL, USUAL, -1, now=2.5, busy_s=1.4)
    assert prefetch.waited_s == pytest.approx(0.1)
    prefetch.missed(now=3.0, busy_s=2.0)
    prefetch.leased(USUAL, USUAL, -1, now=3.1, busy_s=2.3)
    assert prefetch.waited_s == pytest.approx(0.1)


def test_time_in_which_every_host_rests_does_not_count(prefetch: Prefetch) -> None:
    prefetch.leased(3, USUAL, next_due_ms=1000, now=1.0)
    prefetch.missed(now=1.1)
    prefetch.leased(0, USUAL, next_due_ms=500, now=1.5)
    prefetch.leased(5, USUAL, next_due_ms=None, now=2.3)
    assert prefetch.waited_s == pytest.approx(0.3)


def test_an_empty_frontier_makes_nobody_wait(prefetch: Prefetch) -> None:
    prefetch.leased(0, USUAL, next_due_ms=None, now=1.0)
    prefetch.missed(now=2.0)
    prefetch.leased(1, USUAL, next_due_ms=None, now=60.0)
    assert prefetch.waited_s == 0


def test_a_settled_page_makes_its_host_due_after_its_pause(prefetch: Prefetch) -> None:
    prefetch.leased(1, USUAL, next_due_ms=None, now=1.0)
    prefetch.missed(now=1.0)
    prefetch.released(due_at=3.0)
    prefetch.leased(1, USUAL, next_due_ms=None, now=3.25)
    assert prefetch.waited_s == pytest.approx(0.25)


def test_the_buffer_grows_while_it_runs_dry_up_to_a_bound(prefetch: Prefetch) -> None:
    depths = []
    for second in range(10):
        prefetch.missed(now=second + 0.1)
        prefetch.leased(USUAL, USUAL, -1, now=second + 0.2)
        depths.append(prefetch.depth)
    assert depths[:2] == [2 * USUAL, 4 * USUAL]
    assert depths[-1] == DEEPEST * USUAL


def test_the_buffer_shrinks_again_when_it_never_runs_dry(prefetch: Prefetch) -> None:
    prefetch.missed(now=0.1)
    prefetch.leased(USUAL, USUAL, -1, now=0.2)
    for second in range(100):
        prefetch.leased(USUAL, USUAL, -1, now=second)
    assert prefetch.depth == USUAL


def test_the_buffer_does_not_grow_where_there_is_no_more_to_lease(prefetch: Prefetch) -> None:
    for second in range(10):
        prefetch.missed(now=second + 0.1)
        prefetch.released(due_at=second + 0.1)
        prefetch.leased(8, USUAL, -1, now=second + 0.2)
    assert prefetch.depth == USUAL
    assert prefetch.waited_s > 0
