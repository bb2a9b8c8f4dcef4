"""revive.lua and forget.lua: what becomes of dead letters."""

from __future__ import annotations

import pytest

from crawlproj.frontier.messages import Settlement
from crawlproj.frontier.refusals import CrawlFinished
from tests.lua.helpers import A, B, HandCrawl, Host, State, Worker, link, with_worker


def _with_two_dead(crawl: HandCrawl) -> Worker:
    crawl.open(max_attempts=1)
    worker = crawl.worker()
    worker.push(link(A, "/1", 3), link(B, "/1"))
    worker.settle(*(Settlement(one.token, "dead", reason="dns") for one in worker.lease().leases))
    assert crawl.state() == _dead_state()
    return worker


def _dead_state() -> State:
    return with_worker(
        counts={"discovered": 2, "dead": 2, "dead:dns": 2},
        hosts={A: Host(), B: Host()},
        dead={1: (A, 3, "/1'", "dns"), 2: (B, 0, "/1'", "dns")},
        layers=[2],
    )


def test_a_revived_letter_is_queued_as_if_it_had_never_been_tried(crawl: HandCrawl) -> None:
    worker = _with_two_dead(crawl)
    assert worker.revive([1]) == 1
    assert crawl.state() == with_worker(
        counts={"discovered": 2, "queued": 1, "dead": 1, "dead:dns": 1},
        hosts={A: Host([3], at="ready"), B: Host()},
        ready=[A],
        queues={A: {3: ["/1"]}},
        dead={2: (B, 0, "/1'", "dns")},
        layers=[2],
    )
    assert worker.done(worker.lease_one()) == []


def test_a_forgotten_letter_is_counted_as_filtered(crawl: HandCrawl) -> None:
    worker = _with_two_dead(crawl)
    assert worker.forget([1, 2]) == 2
    assert crawl.state() == with_worker(
        counts={"discovered": 2, "filtered:forgotten": 2}, hosts={A: Host(), B: Host()}, layers=[2]
    )


@pytest.mark.parametrize("operation", ["revive", "forget"])
def test_a_letter_that_is_gone_or_unreadable_is_passed_over(
    crawl: HandCrawl, operation: str
) -> None:
    worker = _with_two_dead(crawl)
    sound = crawl.redis.hget(crawl.key("dead"), 2)
    crawl.redis.hset(crawl.key("dead"), 2, b"\xc1")
    assert getattr(worker, operation)([1, 1, 2, 99]) == 1
    assert crawl.redis.hget(crawl.key("dead"), 2) == b"\xc1"
    crawl.redis.hset(crawl.key("dead"), 2, sound)


def test_reviving_again_after_a_lost_reply_changes_nothing(crawl: HandCrawl) -> None:
    worker = _with_two_dead(crawl)
    worker.revive([1, 2])
    before = crawl.state()
    assert worker.revive([1, 2]) == 0
    assert crawl.state() == before


def test_a_finished_crawl_must_be_opened_before_a_letter_is_revived(crawl: HandCrawl) -> None:
    worker = _with_two_dead(crawl)
    worker.finish()
    with pytest.raises(CrawlFinished):
        worker.revive([1])
    worker.control("running", ["finished"])
    assert worker.revive([1]) == 1
