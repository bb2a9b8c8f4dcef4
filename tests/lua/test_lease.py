"""lease.lua: the best URLs of hosts that are due, to one worker."""

from __future__ import annotations

from collections import Counter

import pytest

from crawlproj.frontier.levels import MOVED
from crawlproj.frontier.messages import Batch, Settlement
from crawlproj.frontier.refusals import CrawlReplaced, CrawlWiped, WorkerDeclaredDead
from tests.lua.helpers import (
    MINUTE_MS,
    ROBOTS_TXT,
    A,
    B,
    C,
    HandCrawl,
    Host,
    link,
    paths,
    unfiltered,
    with_worker,
)


def test_a_url_leaves_its_queue_only_into_a_lease_and_its_host_is_checked_out(
    crawl: HandCrawl,
) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(A, "/2"), link(B, "/1", -3))
    assert crawl.state() == with_worker(
        counts={"discovered": 3, "queued": 3},
        hosts={A: Host([0], at="ready"), B: Host([-3], at="ready")},
        ready=[A, B],
        queues={A: {0: ["/1", "/2"]}, B: {-3: ["/1"]}},
        layers=[3],
    )
    batch = worker.lease()
    assert (batch.state, batch.next_due_ms, batch.scope_size) == ("running", None, 0)
    assert [lease[1:4] for lease in batch.leases] == [(1, A, 0), (2, B, -3)]
    assert crawl.state() == with_worker(
        counts={"discovered": 3, "queued": 1, "leased": 2},
        hosts={A: Host([0], out=1), B: Host(out=1)},
        queues={A: {0: ["/2"]}},
        leased={"w": {1: (A, 0, "/1"), 2: (B, -3, "/1")}},
        layers=[3],
    )


def test_priority_comes_first_and_then_who_came_first(crawl: HandCrawl) -> None:
    crawl.open(per_host=10)
    worker = crawl.worker()
    pushed = [link(A, "/low", -5), link(A, "/1"), link(B, "/b", 3), link(A, "/2"), link(A, "/9", 9)]
    worker.push(*pushed)
    assert paths(worker.lease()) == ["/9", "/b", "/1", "/2", "/low"]


def test_a_lease_takes_no_more_than_was_asked_for(crawl: HandCrawl) -> None:
    crawl.open(per_host=10)
    worker = crawl.worker()
    worker.push(*(link(A, f"/{number}") for number in range(5)))
    assert paths(worker.lease(2)) == ["/0", "/1"]
    assert crawl.state().hosts == {A: Host([0], out=2, at="ready")}


def test_no_more_connections_go_to_a_host_than_it_allows(crawl: HandCrawl) -> None:
    crawl.open(per_host=2)
    worker, other = crawl.worker(), crawl.worker("other")
    worker.push(*(link(A, f"/{number}") for number in range(5)))
    assert paths(worker.lease()) == ["/0", "/1"]
    assert paths(other.lease()) == []


def test_each_connection_of_a_host_pauses_by_itself(crawl: HandCrawl) -> None:
    crawl.open(per_host=2)
    worker = crawl.worker()
    worker.push(*(link(A, f"/{number}") for number in range(9)))
    first, second = worker.lease().leases
    crawl.at(10)
    worker.done(first, pause_ms=4 * MINUTE_MS)
    assert crawl.state().hosts == {A: Host([0], out=1, cooling=[14], pages=1, at="waiting")}
    crawl.at(12)
    worker.done(second, pause_ms=4 * MINUTE_MS)
    assert crawl.state().hosts == {A: Host([0], cooling=[14, 16], pages=2, at="waiting")}
    assert paths(worker.lease()) == []
    crawl.at(14.5)
    assert paths(worker.lease()) == ["/2"]
    assert crawl.state().hosts == {A: Host([0], out=1, cooling=[16], pages=2, at="waiting")}
    crawl.at(16.5)
    assert paths(worker.lease()) == ["/3"]
    assert crawl.state().hosts == {A: Host([0], out=2, pages=2)}


def test_pauses_run_from_the_end_of_the_request_and_not_from_its_settling(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(A, "/2"), link(A, "/3"))
    crawl.at(10)
    worker.done(worker.lease_one(), pause_ms=5 * MINUTE_MS, ended_ago_ms=3 * MINUTE_MS)
    assert crawl.state().waiting == [(A, 12)]
    crawl.at(11.9)
    assert worker.lease().leases == []
    crawl.at(12.1)
    worker.done(worker.lease_one(), pause_ms=MINUTE_MS, ended_ago_ms=2 * MINUTE_MS)
    assert crawl.state().ready == [A]


def test_a_host_is_ready_waiting_or_in_no_line(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(*(link(host, f"/{n}") for host in (A, B, C) for n in (1, 2)))
    leases = {lease.host: lease for lease in worker.lease().leases}
    worker.done(leases[A])
    worker.done(leases[B], pause_ms=7 * MINUTE_MS)
    assert crawl.state() == with_worker(
        counts={"discovered": 6, "queued": 3, "leased": 1, "done": 2},
        hosts={
            A: Host([0], pages=1, at="ready"),
            B: Host([0], cooling=[7], pages=1, at="waiting"),
            C: Host([0], out=1),
        },
        ready=[A],
        waiting=[(B, 7)],
        queues={A: {0: ["/2"]}, B: {0: ["/2"]}, C: {0: ["/2"]}},
        leased={"w": {3: (C, 0, "/1")}},
        layers=[6],
    )


def test_the_reply_says_when_the_next_host_or_retry_falls_due(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(A, "/2"), link(B, "/1"))
    first, second = worker.lease().leases
    worker.done(first, pause_ms=20 * MINUTE_MS)
    assert worker.lease().next_due_ms == pytest.approx(20 * MINUTE_MS, abs=MINUTE_MS)
    worker.settle(Settlement(second.token, "retry", delay_ms=5 * MINUTE_MS))
    assert worker.lease().next_due_ms == pytest.approx(5 * MINUTE_MS, abs=MINUTE_MS)
    crawl.at(30)
    batch = worker.lease(1)
    assert (len(batch.leases), batch.next_due_ms) == (1, None)


def test_hosts_of_equal_priority_take_turns_even_without_a_pause(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(*(link(A, f"/{number}") for number in range(10)))
    worker.push(*(link(host, f"/{n}") for host in (B, C) for n in range(10)))
    asked = []
    for _ in range(30):
        lease = worker.lease_one()
        asked.append(lease.host)
        worker.done(lease)
    assert asked == [A, B, C] * 10


def test_a_busy_host_does_not_starve_the_others(crawl: HandCrawl) -> None:
    crawl.open(per_host=2)
    worker = crawl.worker()
    hosts = [A, B, C]
    worker.push(*(link(host, f"/{n}") for host in hosts for n in range(8)))
    asked: Counter[str] = Counter()
    for number in range(9):
        worker.push(*(link(A, f"/more{number}-{n}") for n in range(3)))
        batch = worker.lease(2)
        asked.update(lease.host for lease in batch.leases)
        worker.done(*batch.leases)
    assert asked == {A: 6, B: 6, C: 6}


def test_a_retry_waits_for_its_time_and_then_comes_first(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(A, "/2"), link(A, "/better", 1))
    worker.done(worker.lease_one())
    worker.settle(Settlement(worker.lease_one().token, "retry", delay_ms=5 * MINUTE_MS))
    assert crawl.state() == with_worker(
        counts={"discovered": 3, "queued": 1, "done": 1, "delayed": 1},
        hosts={A: Host([0], pages=1, at="ready")},
        ready=[A],
        queues={A: {0: ["/2"]}},
        delayed=[(5, A, 0, "/1'")],
        layers=[3],
    )
    crawl.at(6)
    assert paths(worker.lease()) == ["/1'"]
    assert crawl.state() == with_worker(
        counts={"discovered": 3, "queued": 1, "done": 1, "leased": 1},
        hosts={A: Host([0], out=1, pages=1)},
        queues={A: {0: ["/2"]}},
        leased={"w": {3: (A, 0, "/1'")}},
        layers=[3],
    )


def test_equal_requests_can_wait_for_their_retry_at_the_same_time(crawl: HandCrawl) -> None:
    crawl.open(per_host=2)
    worker = crawl.worker()
    worker.push(unfiltered(A, "/1"), unfiltered(A, "/1"))
    retries = [Settlement(lease.token, "retry", delay_ms=1000) for lease in worker.lease().leases]
    worker.settle(*retries)
    assert crawl.state().counts == {"discovered": 2, "delayed": 2}
    crawl.at(1)
    assert paths(worker.lease()) == ["/1'", "/1'"]


def test_a_host_gets_exactly_its_pages_and_what_is_left_is_filtered(crawl: HandCrawl) -> None:
    crawl.open(per_host=5, pages_per_host=3)
    worker = crawl.worker()
    worker.push(*(link(A, f"/{number}") for number in range(6)))
    leases = worker.lease().leases
    assert len(leases) == 3
    assert crawl.state().hosts == {A: Host([0], out=3)}
    worker.done(*leases[:2])
    worker.settle(Settlement(leases[2].token, "filtered", reason="robots"))
    assert crawl.state().hosts == {A: Host([0], pages=2, at="ready")}
    [last] = worker.lease().leases
    assert crawl.state().hosts == {A: Host([0], out=1, pages=2)}
    worker.done(last)
    assert crawl.state() == with_worker(
        counts={"discovered": 6, "done": 3, "filtered:robots": 1, "filtered:host_limit": 2},
        hosts={A: Host(pages=3)},
        layers=[6],
    )


def test_a_robots_txt_that_has_moved_here_is_leased_though_the_hosts_own_pages_are_spent(
    crawl: HandCrawl,
) -> None:
    crawl.open(pages_per_host=1)
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(A, "/2"))
    lease = worker.lease_one()
    worker.push(unfiltered(A, "/rules", MOVED))
    worker.done(lease)
    worker.push(link(A, "/3"), unfiltered(A, "/robots.txt", ROBOTS_TXT))
    counts = {"discovered": 5, "done": 1, "filtered:host_limit": 3}
    assert crawl.state() == with_worker(
        counts={**counts, "queued": 1},
        hosts={A: Host([MOVED], pages=1, at="ready")},
        ready=[A],
        queues={A: {MOVED: ["/rules"]}},
        layers=[3],
    )
    moved = worker.lease_one()
    worker.settle(Settlement(moved.token, "retry", delay_ms=MINUTE_MS))
    crawl.at(2)
    [again] = worker.lease().leases
    assert (again.level, again.entry[0]) == (MOVED, 1)
    worker.settle(Settlement(again.token, "filtered", reason="robots_txt"))
    assert crawl.state().counts == {**counts, "filtered:robots_txt": 1}
    assert worker.finish() == "finished"


def test_a_robots_txt_that_has_moved_here_outlasts_a_stop_and_ends_with_those_who_wait_for_it(
    crawl: HandCrawl,
) -> None:
    crawl.open(pages=1)
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(B, "/waits"))
    worker.done(worker.lease_one())
    worker.push(unfiltered(A, "/rules", MOVED))
    before = crawl.state().queues
    assert worker.set_state("stopping", ["running"]) == "stopping"
    assert worker.lease().leases == []
    assert worker.finish() == "stopped"
    assert crawl.state().queues == before
    assert worker.set_state("running", ["stopped"]) == "running"
    assert worker.lease().state == "limit"
    assert worker.filter_queued("page_limit") == 2
    assert worker.finish() == "finished"


def test_a_robots_txt_that_has_moved_here_needs_no_page_where_pages_of_other_shards_may_wait_for_it(
    crawl: HandCrawl,
) -> None:
    crawl.open(pages=1, per_host=2)
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(A, "/2"), link(B, "/1"))
    worker.done(worker.lease_one())
    worker.push(unfiltered(B, "/robots.txt", ROBOTS_TXT), unfiltered(B, "/rules", MOVED))
    assert worker.lease().leases == []
    found = worker.run(worker.shard.lease("w", 9, has_others=True))
    assert (found.state, paths(found)) == ("limit", ["/robots.txt", "/rules"])
    worker.settle(*(Settlement(one.token, "filtered", reason="x") for one in found.leases))
    assert worker.run(worker.shard.lease("w", 9, has_others=True)).leases == []


def test_a_retry_of_a_host_at_its_limit_is_filtered_when_it_falls_due(crawl: HandCrawl) -> None:
    crawl.open(per_host=2, pages_per_host=1)
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(A, "/2"))
    worker.settle(Settlement(worker.lease_one().token, "retry", delay_ms=MINUTE_MS))
    worker.done(worker.lease_one())
    assert crawl.state().counts == {"discovered": 2, "delayed": 1, "done": 1}
    crawl.at(2)
    assert worker.lease().leases == []
    assert crawl.state().counts == {"discovered": 2, "done": 1, "filtered:host_limit": 1}


def test_no_more_pages_are_out_than_the_budget_can_take(crawl: HandCrawl) -> None:
    crawl.open(pages=2)
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(B, "/1"), link(C, "/1"))
    first, second = worker.lease().leases
    batch = worker.lease()
    assert (batch.state, batch.leases) == ("limit", [])
    worker.settle(Settlement(first.token, "dead", reason="dns"))
    third = worker.lease_one()
    worker.done(second, third)
    assert worker.lease().state == "limit"
    assert crawl.state().counts == {"discovered": 3, "done": 2, "dead": 1, "dead:dns": 1}


def test_at_the_deadline_no_more_is_handed_out(crawl: HandCrawl) -> None:
    crawl.open(minutes=10)
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(B, "/1"))
    crawl.at(9.9)
    lease = worker.lease_one()
    crawl.at(10.1)
    assert worker.lease() == Batch("stopping", None, 0, [])
    assert crawl.state().meta == {"state": "stopping"}
    worker.done(lease)
    assert worker.finish() == "stopped"
    assert crawl.state().queues == {B: {0: ["/1"]}}


@pytest.mark.parametrize("state", ["paused", "stopping", "stopped", "finished"])
def test_only_a_running_crawl_hands_out_work(crawl: HandCrawl, state: str) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"))
    crawl.redis.hset(crawl.key("meta"), "state", state)
    before = crawl.state()
    assert worker.lease() == Batch(state, None, 0, [])
    assert crawl.state().raw == before.raw


def test_the_size_of_the_scope_is_told(crawl: HandCrawl) -> None:
    crawl.open()
    crawl.redis.zadd(crawl.key("scope"), {"a": 1, "b": 2})
    assert crawl.worker().lease().scope_size == 2


def test_an_unknown_worker_gets_nothing(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.stranger()
    worker.push(link(A, "/1"))
    before = crawl.state()
    with pytest.raises(WorkerDeclaredDead, match="FRONTIER_LEASE_TIMEOUT"):
        worker.lease()
    assert crawl.state().raw == before.raw


def test_a_wiped_redis_is_an_error_and_never_an_empty_crawl(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    crawl.redis.flushall()
    for operation in (worker.lease, worker.finish, worker.reclaim, worker.leave):
        with pytest.raises(CrawlWiped, match="start it again from its seeds"):
            operation()


def test_a_worker_of_an_earlier_crawl_cannot_touch_the_next(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.finish()
    crawl.open(run="later")
    before = crawl.state()
    for operation in (worker.lease, worker.finish, worker.reclaim, worker.leave):
        with pytest.raises(CrawlReplaced, match="start this worker again"):
            operation()
    assert crawl.state().raw == before.raw


def test_a_robots_txt_goes_before_its_own_pages_and_not_before_better_ones_of_others(
    crawl: HandCrawl,
) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/robots.txt", ROBOTS_TXT), link(A, "/1", 1), link(B, "/1", 5))
    worker.push(link(C, "/robots.txt", ROBOTS_TXT), link(C, "/1", 3))
    assert [lease.host for lease in worker.lease(1).leases] == [B]
    worker.push(link(A, "/2", 4))
    assert [(lease.host, lease.level) for lease in worker.lease().leases] == [
        (A, ROBOTS_TXT),
        (C, ROBOTS_TXT),
    ]


def test_a_connection_that_has_rested_while_its_host_stood_in_line_counts(crawl: HandCrawl) -> None:
    crawl.open(per_host=2)
    worker = crawl.worker()
    worker.push(*(link(A, f"/{number}", 1) for number in range(3)), link(B, "/b"))
    worker.done(worker.lease_one(), pause_ms=MINUTE_MS)
    assert crawl.state().hosts[A].at == "ready"
    crawl.at(2)
    assert paths(worker.lease(3)) == ["/1", "/2", "/b"]
