"""The time in which a crawl ran: kept over stops, crashes, pauses, by the clock of the server."""

from __future__ import annotations

from typing import Any

import pytest

from crawlproj.frontier import keys
from tests.lua.helpers import CRAWL, MINUTE_MS, A, HandCrawl, link


def ran(crawl: HandCrawl) -> tuple[int, int]:
    """Minutes that it ran, and the minute up to which that is known."""
    meta: dict[bytes, Any] = crawl.redis.hgetall(keys.meta(CRAWL, 0))
    since_ms = int(meta[b"ran_until_ms"]) - int(meta[b"started_ms"])
    return round(int(meta.get(b"ran_ms", 0)) / MINUTE_MS), round(since_ms / MINUTE_MS)


@pytest.fixture
def begun(crawl: HandCrawl) -> HandCrawl:
    crawl.open()
    return crawl


def test_time_counts_from_heartbeat_to_heartbeat_whoever_sends_them(begun: HandCrawl) -> None:
    one, other = begun.worker("one"), begun.worker("other")
    begun.at(3)
    one.renew(MINUTE_MS, {})
    begun.at(5)
    other.renew(MINUTE_MS, {})
    assert ran(begun) == (5, 5)


def test_the_time_between_a_stop_and_its_resumption_does_not_count(begun: HandCrawl) -> None:
    worker = begun.worker()
    worker.push(link(A, "/1"))
    begun.at(4)
    worker.set_state("stopping", ["running"])
    worker.leave()
    worker.finish()
    assert ran(begun) == (4, 4)
    begun.at(60)
    assert begun.open(run="next").mode == "resumed"
    again = begun.worker("again")
    begun.at(62)
    again.leave()
    assert ran(begun) == (6, 62)


def test_nobody_ran_it_between_the_last_heartbeat_of_the_dead_and_their_successors(
    begun: HandCrawl,
) -> None:
    begun.worker(timeout_minutes=2).push(link(A, "/1"))
    begun.at(1)
    begun.worker(timeout_minutes=2)
    begun.at(500)
    begun.open(run="next")
    begun.worker("next", timeout_minutes=2)
    begun.at(501)
    begun.worker("next", timeout_minutes=2)
    assert ran(begun) == (2, 501)


def test_a_pause_does_not_count(begun: HandCrawl) -> None:
    worker = begun.worker()
    begun.at(2)
    worker.set_state("paused", ["running"])
    begun.at(30)
    worker.renew(1000 * MINUTE_MS, {})
    begun.at(40)
    worker.set_state("running", ["paused"])
    begun.at(43)
    worker.renew(1000 * MINUTE_MS, {})
    assert ran(begun) == (5, 43)


def test_a_crawl_that_is_over_runs_no_longer_though_workers_wait_at_it(begun: HandCrawl) -> None:
    worker = begun.worker()
    begun.at(7)
    assert worker.finish() == "finished"
    begun.at(50)
    worker.renew(1000 * MINUTE_MS, {})
    assert ran(begun) == (7, 7)
    worker.set_state("running", ["finished"])
    begun.at(51)
    worker.renew(1000 * MINUTE_MS, {})
    assert ran(begun) == (8, 51)


def test_a_clock_that_goes_back_takes_nothing_away(begun: HandCrawl) -> None:
    worker = begun.worker()
    begun.at(10)
    worker.renew(1000 * MINUTE_MS, {})
    begun.at(4)
    worker.renew(1000 * MINUTE_MS, {})
    begun.at(5)
    worker.renew(1000 * MINUTE_MS, {})
    assert ran(begun) == (11, 5)
