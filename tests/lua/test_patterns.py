"""_patterns.lua and release_pattern.lua: URLs that are kept aside because of their pattern."""

from __future__ import annotations

import pytest
from redis import Redis

from crawlproj.frontier import pattern_store
from crawlproj.frontier.bloom import Geometry
from crawlproj.frontier.messages import Settlement
from crawlproj.frontier.refusals import CrawlFinished
from crawlproj.frontier.wire import pack
from tests.lua.helpers import (
    A,
    HandCrawl,
    Host,
    Pattern,
    Worker,
    apart,
    filtered,
    link,
    with_worker,
)

FORM = "/#"
NAME = f"{A} {FORM}"


def release(worker: Worker) -> int:
    pattern = pattern_store.Pattern(0, A, FORM, "", 0, 0, 0)
    return worker.run(pattern_store.release(worker.shard, pattern, worker.name))


@pytest.fixture
def worker(crawl: HandCrawl) -> Worker:
    crawl.geometry = Geometry(10_000, 1e-7)
    crawl.open()
    worker = crawl.worker()
    crawl.at(1)
    return worker


def test_a_link_of_a_pattern_is_kept_and_the_first_one_tells_of_the_pattern(
    crawl: HandCrawl, worker: Worker
) -> None:
    assert worker.push(apart(A, "/1", FORM)) == [True]
    crawl.at(2)
    assert worker.push(apart(A, "/2", FORM, "queries"), apart(A, "/1", FORM)) == [True, False]
    assert crawl.state() == with_worker(
        counts={"discovered": 2, "filtered:pattern": 2, "duplicates": 1},
        patterns={NAME: Pattern("repeated", since=1, urls=2)},
        set_aside={NAME: [f"{A}/1", f"{A}/2"]},
        layers=[2],
    )
    assert worker.run(pattern_store.changes_of([worker.shard])) == [1]


def test_a_url_that_was_leased_is_kept_aside_as_filtered(crawl: HandCrawl, worker: Worker) -> None:
    worker.push(link(A, "/1", 5))
    lease = worker.lease_one()
    worker.settle(Settlement(lease.token, "set_aside", reason=FORM, entry=b"repeated"))
    assert crawl.state() == with_worker(
        counts={"discovered": 1, "filtered:pattern": 1},
        hosts={A: Host()},
        patterns={NAME: Pattern("repeated", since=1)},
        set_aside={NAME: ["/1"]},
        layers=[1],
    )


def test_a_released_pattern_gives_back_what_was_kept_each_url_once(
    crawl: HandCrawl, worker: Worker
) -> None:
    worker.push(link(A, "/1", 5), apart(A, "/2", FORM), filtered("offsite", "x"))
    lease = worker.lease_one()
    worker.settle(Settlement(lease.token, "set_aside", reason=FORM, entry=b"repeated"))
    crawl.at(3)
    assert release(worker) == 2
    after = with_worker(
        counts={"discovered": 3, "queued": 2, "filtered:offsite": 1},
        hosts={A: Host([0, 5], at="ready")},
        ready=[A],
        queues={A: {0: ["/2"], 5: ["/1"]}},
        patterns={NAME: Pattern("repeated", since=1, released=3, urls=2)},
        layers=[4],
    )
    assert crawl.state() == after
    crawl.at(4)
    assert release(worker) == 0
    assert crawl.state() == after
    assert worker.push(link(A, "/2")) == [False]


def test_what_was_fetched_in_another_way_meanwhile_stays_filtered(
    crawl: HandCrawl, worker: Worker
) -> None:
    worker.push(apart(A, "/1", FORM), link(A, "/1"))
    assert release(worker) == 0
    state = crawl.state()
    assert (state.counts["queued"], state.counts["filtered:pattern"]) == (1, 1)
    assert state.set_aside == {}


def test_after_its_release_urls_of_a_pattern_are_queued_whatever_a_worker_believes(
    crawl: HandCrawl, worker: Worker
) -> None:
    worker.push(apart(A, "/1", FORM), link(A, "/2"))
    lease = worker.lease_one()
    release(worker)
    worker.push(apart(A, "/3", FORM))
    worker.settle(Settlement(lease.token, "set_aside", reason=FORM, entry=b"repeated"))
    state = crawl.state()
    assert sorted(state.queues[A][0]) == ["/1", "/2", "/3"]
    assert "filtered:pattern" not in state.counts
    assert state.patterns[NAME].released is not None


def test_urls_of_a_released_pattern_are_queued_in_the_order_in_which_they_come(
    crawl: HandCrawl, worker: Worker
) -> None:
    worker.push(apart(A, "/1", FORM))
    release(worker)
    worker.push(link(A, "/x"), apart(A, "/2", FORM), link(A, "/y"), apart(A, "/3", FORM))
    assert crawl.state().queues[A][0] == ["/1", "/x", "/2", "/y", "/3"]


def test_so_many_urls_of_a_pattern_are_kept_and_the_rest_can_be_found_again(
    crawl: HandCrawl, worker: Worker
) -> None:
    for start in range(0, 1200, 400):
        worker.push(*(apart(A, f"/{number}", FORM) for number in range(start, start + 400)))
    state = crawl.state()
    assert (len(state.set_aside[NAME]), state.patterns[NAME].urls) == (1000, 1200)
    assert release(worker) == 1000
    state = crawl.state()
    assert (state.counts["queued"], state.counts["filtered:pattern"]) == (1000, 200)
    assert worker.push(link(A, "/999"), link(A, "/1000")) == [False, True]


def test_beyond_so_many_patterns_urls_are_filtered_and_not_kept(
    crawl: HandCrawl, worker: Worker, redis: Redis
) -> None:
    known = {f"http://h{number} {FORM}": pack(["queries", 1, 0, 1]) for number in range(9_999)}
    redis.hset(crawl.key("patterns"), mapping=known)
    worker.push(apart("http://h", "/1", FORM), link(A, "/1"))
    lease = worker.lease_one()
    worker.settle(Settlement(lease.token, "set_aside", reason=FORM, entry=b"repeated"))
    worker.push(apart(A, "/2", FORM))
    state = crawl.state()
    assert state.counts == {"discovered": 3, "filtered:pattern": 3}
    assert state.set_aside == {f"http://h {FORM}": ["http://h/1"]}
    assert (len(state.patterns), NAME in state.patterns) == (10_000, False)
    assert worker.finish() == "finished"


def test_a_damaged_record_hurts_nothing_beside_it(
    crawl: HandCrawl, worker: Worker, redis: Redis
) -> None:
    worker.push(apart(A, "/1", FORM), apart(A, "/2", FORM))
    key = crawl.key("set_aside", NAME)
    redis.lset(key, 0, b"\xc1")
    redis.rpush(key, pack([9, "x"]))
    assert release(worker) == 1
    redis.hset(crawl.key("patterns"), "http://b /#", b"\xc1")
    assert [one.host for one in worker.run(pattern_store.patterns_of([worker.shard]))] == [A]
    worker.push(apart("http://b", "/1", FORM))
    assert crawl.state().patterns["http://b /#"].urls == 1


def test_a_finished_crawl_takes_nothing_back_and_loses_nothing(
    crawl: HandCrawl, worker: Worker
) -> None:
    worker.push(apart(A, "/1", FORM))
    assert worker.finish() == "finished"
    with pytest.raises(CrawlFinished):
        release(worker)
    worker.set_state("running", ["finished"])
    assert release(worker) == 1


def test_a_new_crawl_begins_without_them(crawl: HandCrawl, worker: Worker) -> None:
    worker.push(apart(A, "/1", FORM))
    worker.finish()
    crawl.open(run="next")
    state = crawl.state()
    assert (state.patterns, state.set_aside) == ({}, {})
