"""push.lua: URLs come in, each once, and stand in line."""

from __future__ import annotations

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from crawlproj.frontier.bloom import Geometry
from crawlproj.frontier.messages import Renewed
from crawlproj.frontier.refusals import CrawlFinished, CrawlReplaced, CrawlWiped
from crawlproj.frontier.wire import pack
from tests.lua.helpers import (
    MINUTE_MS,
    A,
    B,
    C,
    HandCrawl,
    Host,
    State,
    entry,
    filtered,
    hand_crawl,
    link,
    seed,
    unfiltered,
    with_worker,
)
from tests.servers.redis import RedisServer


def test_new_links_are_queued_at_their_hosts_best_level_first(crawl: HandCrawl) -> None:
    crawl.open()
    assert crawl.state() == State()
    assert crawl.stranger().push(link(A, "/1"), link(A, "/2", 5), link(A, "/3"), link(B, "/1", 2))
    assert crawl.state() == State(
        counts={"discovered": 4, "queued": 4},
        hosts={A: Host([0, 5], at="ready"), B: Host([2], at="ready")},
        ready=[A, B],
        queues={A: {0: ["/1", "/3"], 5: ["/2"]}, B: {2: ["/1"]}},
        layers=[4],
    )


def test_hosts_of_one_push_stand_in_line_as_they_came(crawl: HandCrawl) -> None:
    crawl.open()
    hosts = [f"http://h{number}" for number in range(50)]
    crawl.stranger().push(*(link(host, "/") for host in hosts))
    assert crawl.state().ready == hosts


def test_a_better_link_moves_its_host_forward(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.stranger()
    worker.push(link(A, "/1"), link(B, "/1"))
    worker.push(link(B, "/2", 1))
    assert crawl.state().ready == [B, A]


def test_more_links_of_the_same_level_do_not_cost_a_host_its_turn(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.stranger()
    worker.push(link(A, "/1"), link(B, "/1"))
    worker.push(link(A, "/2"), link(A, "/0", -1))
    assert crawl.state().ready == [A, B]


def test_a_link_is_taken_in_once(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.stranger()
    assert worker.push(link(A, "/1"), link(A, "/1"), link(A, "/2")) == [True, False, True]
    assert crawl.stranger("other").push(link(A, "/1", 9)) == [False]
    assert crawl.state() == State(
        counts={"discovered": 2, "queued": 2, "duplicates": 2},
        hosts={A: Host([0], at="ready")},
        ready=[A],
        queues={A: {0: ["/1", "/2"]}},
        layers=[2],
    )


def test_links_that_the_worker_knew_are_counted_with_the_next_push(crawl: HandCrawl) -> None:
    crawl.open()
    crawl.stranger().push(seen_locally=7)
    assert crawl.state() == State(counts={"duplicates": 7})


def test_a_seed_is_taken_in_though_the_filter_calls_it_seen_and_once_only(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.stranger()
    worker.push(link(A, "/1"))
    assert worker.push(seed(A, "/1"), seed(A, "/1"), link(A, "/1")) == [True, False, False]
    assert crawl.state() == State(
        counts={"discovered": 2, "queued": 2, "duplicates": 2},
        hosts={A: Host([0], at="ready")},
        ready=[A],
        queues={A: {0: ["/1", "/1"]}},
        seeds={f"{A}/1"},
        layers=[2],
    )


def test_a_link_to_a_seed_is_seen(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.stranger()
    worker.push(seed(A, "/1"))
    assert worker.push(link(A, "/1")) == [False]


def test_an_unfiltered_request_neither_asks_the_filter_nor_enters_it(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.stranger()
    assert worker.push(unfiltered(A, "/1"), unfiltered(A, "/1"), link(A, "/1")) == [True] * 3
    assert crawl.state() == State(
        counts={"discovered": 3, "queued": 3},
        hosts={A: Host([0], at="ready")},
        ready=[A],
        queues={A: {0: ["/1", "/1", "/1"]}},
        layers=[1],
    )


def test_what_was_filtered_before_is_counted_once_with_its_reason(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.stranger()
    worker.push(filtered("offsite", "http://x/"), filtered("depth", "http://x/"))
    worker.push(filtered("offsite", "http://x/"))
    counts = {"discovered": 2, "filtered:offsite": 1, "filtered:depth": 1, "duplicates": 1}
    assert crawl.state() == State(counts=counts, layers=[2])


def test_a_push_that_is_sent_again_changes_nothing(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.stranger()
    batch = link(A, "/1"), unfiltered(A, "/2"), seed(B, "/"), filtered("depth", "http://x/")
    worker.push(*batch, seen_locally=3)
    before = crawl.state()
    worker.shard.pushes = 0
    assert worker.push(*batch, seen_locally=3) == [False] * 4
    assert crawl.state().raw == before.raw


def test_a_restarted_worker_of_the_same_name_is_heard(crawl: HandCrawl) -> None:
    crawl.open()
    former = crawl.worker("fixed")
    former.push(link(A, "/1"))
    former.push(link(A, "/2"))
    assert crawl.worker("fixed").push(link(A, "/3")) == [True]


def test_a_full_layer_opens_the_next_and_keys_of_both_are_seen(crawl: HandCrawl) -> None:
    crawl.geometry = Geometry(3, 0.01)
    crawl.open()
    worker = crawl.stranger()
    for number in range(10):
        assert worker.push(link(A, f"/{number}")) == [True]
    assert crawl.state().layers == [3, 6, 1]
    assert worker.push(*(link(A, f"/{number}") for number in range(10))) == [False] * 10
    assert len(worker.shard.replica.layers) == 3


def test_a_worker_that_knows_too_few_layers_learns_of_them_before_anything_is_done(
    crawl: HandCrawl,
) -> None:
    crawl.geometry = Geometry(2, 0.01)
    crawl.open()
    quick, slow = crawl.stranger("quick"), crawl.stranger("slow")
    quick.push(*(link(A, f"/{number}") for number in range(3)))
    before = crawl.state()
    args = ["slow", 1, 1, 2, pack([0, A, 0, entry("/new"), bytes(28), "", 0]), 0, "7"]
    assert slow.call("push", args) == [2]
    assert crawl.state().raw == before.raw
    assert slow.push(link(A, "/0"), link(A, "/new")) == [False, True]


def test_a_worker_that_knows_more_layers_than_a_server_gone_back_in_time_forgets_them(
    crawl: HandCrawl,
) -> None:
    crawl.geometry = Geometry(2, 0.01)
    crawl.open()
    worker = crawl.stranger()
    worker.push(link(A, "/1"), link(A, "/2"))
    crawl.redis.hset(crawl.key("layers"), "open", 1)
    assert worker.push(link(A, "/1"), link(A, "/3")) == [False, True]


def test_the_replica_copies_bits_only_where_redis_has_them(crawl: HandCrawl) -> None:
    crawl.geometry = Geometry(4, 0.01)
    crawl.open()
    first, second = crawl.stranger("first"), crawl.stranger("second")
    known = [link(A, f"/{number}") for number in range(6)]
    first.push(*known[:4])
    first.push(*known[4:])
    second.push(*known)
    fresh = crawl.stranger("fresh")
    fresh.warm()
    for mine, theirs in zip(second.shard.replica.layers, fresh.shard.replica.layers, strict=True):
        assert mine.bitarray == theirs.bitarray


def test_sampled_urls_are_kept_exactly_and_the_filters_mistakes_are_counted(
    crawl: HandCrawl,
) -> None:
    crawl.audit_one_in = 1
    crawl.geometry = Geometry(8, 0.4)
    crawl.open()
    worker = crawl.stranger()
    for number in range(40):
        assert worker.push(link(A, f"/{number}")) == [True]
        assert worker.push(link(A, f"/{number}")) == [False]
    state = crawl.state()
    assert state.audit == {f"{A}/{number}" for number in range(40)}
    assert state.counts["audit_new"] == 40
    assert 0 < state.counts["audit_false"] < 40


def test_a_host_at_its_page_limit_takes_no_more(crawl: HandCrawl) -> None:
    crawl.open(pages_per_host=1)
    worker = crawl.worker()
    worker.push(link(A, "/1"))
    worker.done(worker.lease_one())
    worker.push(link(A, "/2"), link(B, "/1"))
    assert crawl.state() == with_worker(
        counts={"discovered": 3, "done": 1, "queued": 1, "filtered:host_limit": 1},
        hosts={A: Host(pages=1), B: Host([0], at="ready")},
        ready=[B],
        queues={B: {0: ["/1"]}},
        layers=[3],
    )


def test_links_of_a_host_that_pauses_wait_with_it(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"))
    worker.done(worker.lease_one(), pause_ms=5 * MINUTE_MS)
    worker.push(link(A, "/2"))
    assert crawl.state() == with_worker(
        counts={"discovered": 2, "done": 1, "queued": 1},
        hosts={A: Host([0], cooling=[5], pages=1, at="waiting")},
        waiting=[(A, 5)],
        queues={A: {0: ["/2"]}},
        layers=[2],
    )


def test_links_of_a_host_that_is_asked_right_now_stand_in_no_line(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"))
    worker.lease()
    worker.push(link(A, "/2"))
    assert crawl.state() == with_worker(
        counts={"discovered": 2, "leased": 1, "queued": 1},
        hosts={A: Host([0], out=1)},
        queues={A: {0: ["/2"]}},
        leased={"w": {1: (A, 0, "/1")}},
        layers=[2],
    )


def test_pushing_is_refused_where_the_crawl_is_over_replaced_or_gone(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.stranger()
    worker.finish()
    before = crawl.state()
    with pytest.raises(CrawlFinished):
        worker.push(link(A, "/1"))
    assert crawl.state().raw == before.raw
    crawl.open(run="later")
    with pytest.raises(CrawlReplaced):
        worker.push(link(A, "/1"))
    assert crawl.state() == State()
    crawl.redis.flushall()
    with pytest.raises(CrawlWiped):
        worker.push(link(A, "/1"))
    assert crawl.redis.dbsize() == 0


def test_the_lowest_and_the_highest_level_keep_their_order(crawl: HandCrawl) -> None:
    crawl.open()
    levels = {A: -1000, B: 1000, C: 0}
    crawl.stranger().push(*(link(host, "/", level) for host, level in levels.items()))
    assert crawl.state().ready == [B, C, A]


def test_out_of_memory_refuses_a_push_before_its_first_write_and_nothing_else(
    redis_server: RedisServer, redis: Redis
) -> None:
    with hand_crawl(redis_server.url, redis) as crawl:
        crawl.open()
        worker, silent = crawl.worker(), crawl.worker("silent", timeout_minutes=1)
        worker.push(link(A, "/1"), link(B, "/1"), link(C, "/1"))
        silent.lease(1)
        crawl.at(2)
        before = crawl.state()
        redis.config_set("maxmemory", 1)
        try:
            with pytest.raises(ResponseError, match="maxmemory"):
                worker.push(link(A, "/2"))
            assert crawl.state().raw == before.raw
            first, second = worker.lease(2).leases
            assert worker.renew(1000 * MINUTE_MS, {}) == Renewed(True, "running", 0, 2)
            assert worker.done(first) == []
            assert worker.done(second) == []
            assert worker.reclaim().queued == 1
            assert worker.done(worker.lease_one()) == []
            assert worker.finish() == "finished"
        finally:
            redis.config_set("maxmemory", 0)
        assert crawl.state().counts == {"discovered": 3, "done": 3, "reclaimed": 1}
