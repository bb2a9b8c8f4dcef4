"""_clock.lua: what becomes of a crawl when the clock of its server is set."""

from __future__ import annotations

import pytest

from crawlproj.frontier.messages import Reclaimed
from tests.lua.helpers import MINUTE_MS, A, B, HandCrawl, Worker, link

HOUR = 60
steps = pytest.mark.parametrize("minutes", [-HOUR, HOUR])


def _resting_for_five_minutes(crawl: HandCrawl) -> Worker:
    """A worker that holds a URL of B, while A rests and has a second URL."""
    worker = crawl.worker(timeout_minutes=10)
    worker.push(link(A, "/1"), link(A, "/2"), link(B, "/1"))
    first, _ = worker.lease().leases
    worker.done(first, pause_ms=5 * MINUTE_MS)
    return worker


@steps
def test_a_host_rests_as_long_as_it_would_have(crawl: HandCrawl, minutes: int) -> None:
    crawl.open()
    worker = _resting_for_five_minutes(crawl)
    crawl.step(minutes)
    batch = worker.lease()
    assert batch.leases == []
    assert 4 * MINUTE_MS < batch.next_due_ms < 6 * MINUTE_MS
    crawl.step(minutes)
    worker.push(link(A, "/3"))
    assert crawl.state().hosts[A].cooling == [5]


@steps
def test_nobody_takes_over_what_a_living_worker_holds(crawl: HandCrawl, minutes: int) -> None:
    crawl.open()
    worker = _resting_for_five_minutes(crawl)
    before = crawl.state()
    crawl.step(minutes)
    assert worker.reclaim() == Reclaimed(0, 0, [])
    assert crawl.state() == before


@steps
def test_a_crawl_lasts_as_long_as_it_would_have(crawl: HandCrawl, minutes: int) -> None:
    crawl.open(lasts_ms=8 * MINUTE_MS)
    worker = _resting_for_five_minutes(crawl)
    crawl.step(minutes)
    worker.renew(10 * MINUTE_MS, {})
    crawl.at(7)
    assert worker.lease().state == "running"
    crawl.at(9)
    assert worker.lease().state == "stopping"


@steps
def test_the_time_that_others_are_told_is_that_of_the_scripts(
    crawl: HandCrawl, minutes: int
) -> None:
    crawl.open()
    worker = _resting_for_five_minutes(crawl)
    before_ms = worker.now_ms()
    crawl.step(minutes)
    worker.renew(MINUTE_MS, {})
    assert abs(worker.now_ms() - before_ms) < MINUTE_MS


def test_time_in_which_nobody_asked_has_passed(crawl: HandCrawl) -> None:
    """All workers had died, or the server was away: one that comes then knows of no step."""
    crawl.open()
    _resting_for_five_minutes(crawl)
    crawl.step(HOUR)
    assert crawl.stranger("later").reclaim() == Reclaimed(1, 1, [])


def test_a_clock_that_was_set_back_while_nobody_asked_has_stood_still(crawl: HandCrawl) -> None:
    crawl.open()
    _resting_for_five_minutes(crawl)
    crawl.step(-HOUR)
    assert crawl.open(run="later").mode == "joined"
    assert crawl.worker("later").lease().next_due_ms < 6 * MINUTE_MS


def test_a_new_crawl_begins_with_the_time_of_the_server(crawl: HandCrawl) -> None:
    crawl.open()
    crawl.step(-HOUR)
    crawl.stranger().finish()
    crawl.open(run="later")
    seconds, _ = crawl.redis.time()
    began_ms = int(crawl.redis.hget(crawl.key("meta"), "started_ms"))
    assert abs(began_ms - seconds * 1000) < MINUTE_MS
