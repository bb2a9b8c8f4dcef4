"""settle.lua: leases end, each by its holder and once."""

from __future__ import annotations

import pytest

from crawlproj.frontier.levels import MOVED
from crawlproj.frontier.messages import Settlement, Verdict
from crawlproj.frontier.settling import Answer, settle
from tests.lua.helpers import (
    MINUTE_MS,
    A,
    HandCrawl,
    Host,
    State,
    entry,
    link,
    packed,
    unfiltered,
    with_worker,
)
from tests.lua.helpers import Worker as HandWorker


def _leased(crawl: HandCrawl) -> tuple[HandWorker, int]:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1", 4), link(A, "/2"))
    return worker, worker.lease_one().token


BEFORE = with_worker(
    counts={"discovered": 2, "queued": 1, "leased": 1},
    hosts={A: Host([0], out=1)},
    queues={A: {0: ["/2"]}},
    leased={"w": {1: (A, 4, "/1")}},
    layers=[2],
)


def test_done_counts_the_page_its_status_and_its_bytes(crawl: HandCrawl) -> None:
    worker, token = _leased(crawl)
    assert crawl.state() == BEFORE
    assert worker.settle(Settlement(token, "done", status=200, size=512)) == []
    assert crawl.state() == with_worker(
        counts={"discovered": 2, "queued": 1, "done": 1, "status:200": 1, "bytes": 512},
        hosts={A: Host([0], pages=1, at="ready")},
        ready=[A],
        queues={A: {0: ["/2"]}},
        layers=[2],
    )


def test_items_of_spiders_are_counted_by_class_and_once_though_the_call_is_repeated(
    crawl: HandCrawl,
) -> None:
    worker, token = _leased(crawl)
    batch, new_items = [Settlement(token, "done")], {"Product": 2, "dict": 1}
    for is_repeated in (False, True):
        call = settle(worker.shard, worker.name, batch, new_items, call=5, is_repeated=is_repeated)
        assert worker.run(call) == Answer([])
    counts = crawl.state().counts
    assert {name: counts[name] for name in counts if name.startswith("items:")} == {
        "items:Product": 2,
        "items:dict": 1,
    }


def test_items_of_spiders_are_counted_though_all_that_ends_with_them_is_late(
    crawl: HandCrawl,
) -> None:
    """They may be of pages that are still under way."""
    worker, token = _leased(crawl)
    worker.done(worker.held_leases()[0])
    call = settle(worker.shard, worker.name, [Settlement(token, "done")], {"Product": 2})
    assert worker.run(call).late == [token]
    assert crawl.state().counts["items:Product"] == 2


def test_a_call_that_is_repeated_is_answered_as_before_and_changes_nothing(
    crawl: HandCrawl,
) -> None:
    worker, token = _leased(crawl)
    batch = [Settlement(token, "done"), Settlement(99, "done")]

    def call(number: int, *, is_repeated: bool) -> Answer:
        return worker.run(
            settle(worker.shard, worker.name, batch, call=number, is_repeated=is_repeated)
        )

    assert call(5, is_repeated=False) == Answer([99])
    after = crawl.state()
    assert after.counts["late"] == 1
    assert call(5, is_repeated=True) == Answer([99])
    assert crawl.state() == after
    for number in range(6, 14):
        call(number, is_repeated=False)
    assert call(5, is_repeated=True) == Answer([token, 99], is_certain=False)


@pytest.mark.parametrize("kept", [b"", b"\xc1", packed(5), packed("5", [], [])])
def test_what_is_remembered_of_a_call_may_be_damaged(crawl: HandCrawl, kept: bytes) -> None:
    worker, token = _leased(crawl)
    crawl.redis.hset(crawl.key("replies"), "settled 5 w", kept)
    batch = [Settlement(token, "done")]
    answer = worker.run(settle(worker.shard, worker.name, batch, call=5, is_repeated=True))
    assert answer == Answer([], is_certain=False)
    assert crawl.state().counts["done"] == 1


def test_filtered_is_counted_with_its_reason_and_is_no_page(crawl: HandCrawl) -> None:
    worker, token = _leased(crawl)
    worker.settle(Settlement(token, "filtered", reason="robots", pause_ms=3 * MINUTE_MS))
    assert crawl.state() == with_worker(
        counts={"discovered": 2, "queued": 1, "filtered:robots": 1},
        hosts={A: Host([0], cooling=[3], at="waiting")},
        waiting=[(A, 3)],
        queues={A: {0: ["/2"]}},
        layers=[2],
    )


def test_dead_is_kept_among_the_dead_letters_with_its_attempt(crawl: HandCrawl) -> None:
    worker, token = _leased(crawl)
    worker.settle(Settlement(token, "dead", reason="http_500", status=500))
    counts = {"discovered": 2, "queued": 1, "dead": 1, "dead:http_500": 1, "status:500": 1}
    assert crawl.state() == with_worker(
        counts=counts,
        hosts={A: Host([0], at="ready")},
        ready=[A],
        queues={A: {0: ["/2"]}},
        dead={(A, 4, "/1'", "http_500", 1)},
        layers=[2],
    )


def test_retry_waits_with_one_attempt_more_and_keeps_its_level(crawl: HandCrawl) -> None:
    worker, token = _leased(crawl)
    worker.settle(Settlement(token, "retry", delay_ms=8 * MINUTE_MS))
    assert crawl.state() == with_worker(
        counts={"discovered": 2, "queued": 1, "delayed": 1},
        hosts={A: Host([0], at="ready")},
        ready=[A],
        queues={A: {0: ["/2"]}},
        delayed=[(8, A, 4, "/1'")],
        layers=[2],
    )


def test_retry_can_come_back_as_another_entry(crawl: HandCrawl) -> None:
    worker, token = _leased(crawl)
    worker.settle(Settlement(token, "retry", entry=entry("/1?again", 2), delay_ms=0))
    assert crawl.state().delayed == [(0, A, 4, "/1?again'''")]


def test_wait_delays_a_url_that_was_not_tried(crawl: HandCrawl) -> None:
    worker, token = _leased(crawl)
    worker.settle(Settlement(token, "wait", delay_ms=8 * MINUTE_MS))
    assert crawl.state() == with_worker(
        counts={"discovered": 2, "queued": 1, "delayed": 1},
        hosts={A: Host([0], at="ready")},
        ready=[A],
        queues={A: {0: ["/2"]}},
        delayed=[(8, A, 4, "/1")],
        layers=[2],
    )


def test_a_host_that_asks_for_it_is_left_alone_by_all_its_connections(crawl: HandCrawl) -> None:
    crawl.open(per_host=3)
    worker = crawl.worker()
    worker.push(*(link(A, f"/{number}") for number in range(4)))
    first, second, third = worker.lease().leases
    worker.settle(Settlement(first.token, "retry", pause_ms=MINUTE_MS, hold_ms=20 * MINUTE_MS))
    assert crawl.state().waiting == [(A, 20)]
    crawl.at(5)
    worker.settle(Settlement(second.token, "done", hold_ms=3 * MINUTE_MS))
    assert crawl.state().hosts == {A: Host([0], out=1, pages=1, at="waiting", hold=20)}
    crawl.at(10)
    worker.settle(Settlement(third.token, "done", hold_ms=15 * MINUTE_MS))
    assert worker.lease().leases == []
    assert crawl.state().hosts == {A: Host([0], pages=2, at="waiting", hold=25)}
    crawl.at(26)
    assert len(worker.lease().leases) == 2


def test_failures_in_a_row_are_told_with_the_next_lease_and_forgotten_with_an_answer(
    crawl: HandCrawl,
) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(*(link(A, f"/{number}") for number in range(4)))
    told = []
    for failed in (1, 1, -1, 0):
        lease = worker.lease_one()
        told.append(lease.host_failures)
        worker.settle(Settlement(lease.token, "done", failed=failed))
    assert told == [0, 1, 2, 0]


def test_a_robots_txt_that_has_moved_to_a_host_that_is_given_up_is_handed_out_at_once(
    crawl: HandCrawl,
) -> None:
    crawl.open(give_up=2)
    worker = crawl.worker()
    worker.push(*(link(A, f"/{number}") for number in range(4)))
    for minute in (0, 61):
        crawl.at(minute)
        failed = Settlement(worker.lease_one().token, "dead", reason="timeout", failed=1)
        failed.hold_ms = 60 * MINUTE_MS
        worker.settle(failed)
    worker.push(*(unfiltered(A, "/rules", MOVED) for _ in range(2)))
    assert crawl.state().hosts == {A: Host([MOVED], at="ready", failures=2, hold=121)}
    assert crawl.state().queues == {A: {MOVED: ["/rules"] * 2}}
    told = []
    while leases := worker.lease().leases:
        told += [(lease.level, lease.host_failures) for lease in leases]
        worker.settle(*(Settlement(one.token, "filtered", reason="robots_txt") for one in leases))
    assert told == [(MOVED, 2)] * 2
    assert worker.finish() == "finished"


def test_a_host_that_fails_too_often_is_given_up(crawl: HandCrawl) -> None:
    crawl.open(give_up=2, per_host=2)
    worker = crawl.worker()
    worker.push(*(link(A, f"/{number}") for number in range(4)))
    first, second = worker.lease().leases
    worker.settle(Settlement(first.token, "retry", delay_ms=MINUTE_MS, failed=1))
    worker.settle(Settlement(second.token, "dead", reason="timeout", failed=1))
    counts = {"discovered": 4, "delayed": 1, "dead": 1, "dead:timeout": 1}
    assert crawl.state().counts == {**counts, "filtered:host_down": 2}
    worker.push(link(A, "/more"))
    crawl.at(2)
    assert worker.lease().leases == []
    assert crawl.state() == with_worker(
        counts={"discovered": 5, "dead": 1, "dead:timeout": 1, "filtered:host_down": 4},
        hosts={A: Host(failures=2)},
        dead={(A, 0, "/1'", "timeout", 1)},
        layers=[5],
    )


def test_return_puts_a_url_back_in_front_as_if_it_had_never_left(crawl: HandCrawl) -> None:
    worker, token = _leased(crawl)
    worker.settle(Settlement(token, "return"))
    assert crawl.state() == with_worker(
        counts={"discovered": 2, "queued": 2},
        hosts={A: Host([0, 4], at="ready")},
        ready=[A],
        queues={A: {0: ["/2"], 4: ["/1"]}},
        layers=[2],
    )
    worker.settle(Settlement(worker.lease_one().token, "done"))
    worker.push(link(A, "/3"))
    worker.settle(Settlement(worker.lease_one().token, "return"))
    assert crawl.state().queues == {A: {0: ["/2", "/3"]}}


def test_a_batch_settles_each_lease_by_its_own_verdict(crawl: HandCrawl) -> None:
    crawl.open(per_host=5)
    worker = crawl.worker()
    worker.push(*(link(A, f"/{number}") for number in range(5)))
    tokens = [lease.token for lease in worker.lease().leases]
    verdicts: tuple[Verdict, ...] = ("done", "filtered", "dead", "retry", "return")
    batch = [Settlement(t, v, reason="r") for t, v in zip(tokens, verdicts, strict=True)]
    assert worker.settle(*batch) == []
    assert crawl.state() == with_worker(
        counts={
            "discovered": 5,
            "queued": 1,
            "delayed": 1,
            "done": 1,
            "dead": 1,
            "dead:r": 1,
            "filtered:r": 1,
        },
        hosts={A: Host([0], pages=1, at="ready")},
        ready=[A],
        queues={A: {0: ["/4"]}},
        delayed=[(0, A, 0, "/3'")],
        dead={(A, 0, "/2'", "r", 1)},
        layers=[5],
    )


def test_a_settlement_that_is_sent_again_changes_nothing(crawl: HandCrawl) -> None:
    worker, token = _leased(crawl)
    batch = [Settlement(token, "done", pause_ms=MINUTE_MS, status=200, size=9)]
    worker.settle(*batch)
    before = crawl.state()
    assert worker.settle(*batch) == [token]
    _assert_only_counted_as_late(before, crawl.state())


@pytest.mark.parametrize("verdict", ["done", "filtered", "dead", "retry", "wait", "return"])
def test_the_former_holder_of_a_reclaimed_lease_changes_nothing(
    crawl: HandCrawl, verdict: Verdict
) -> None:
    crawl.open()
    zombie, living = crawl.worker("zombie", timeout_minutes=1), crawl.worker()
    zombie.push(link(A, "/1"))
    token = zombie.lease_one().token
    crawl.at(2)
    living.reclaim()
    living.lease_one()
    before = crawl.state()
    late = Settlement(token, verdict, 0, MINUTE_MS, "r", entry("/x"), 9, 200, 9, 1, MINUTE_MS)
    assert zombie.settle(late) == [token]
    _assert_only_counted_as_late(before, crawl.state())
    zombie.renew(MINUTE_MS, {})
    before = crawl.state()
    assert zombie.settle(late) == [token]
    _assert_only_counted_as_late(before, crawl.state())


def test_nobody_settles_what_another_holds(crawl: HandCrawl) -> None:
    _, token = _leased(crawl)
    before = crawl.state()
    assert crawl.worker("other").settle(Settlement(token, "done")) == [token]
    after = crawl.state()
    assert (after.leased, after.queues) == (before.leased, before.queues)


def test_a_late_one_does_not_keep_the_rest_of_its_batch_from_being_settled(
    crawl: HandCrawl,
) -> None:
    worker, token = _leased(crawl)
    assert worker.settle(Settlement(99, "done"), Settlement(token, "done")) == [99]
    assert crawl.state().counts == {"discovered": 2, "queued": 1, "done": 1, "late": 1}


def test_attempts_stop_at_what_a_byte_can_count(crawl: HandCrawl) -> None:
    worker, token = _leased(crawl)
    worker.settle(Settlement(token, "retry", entry=entry("/1", 255)))
    assert crawl.state().delayed == [(0, A, 4, "/1" + "'" * 255)]


def test_hosts_are_settled_in_the_order_of_the_batch(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    hosts = [f"http://h{number}" for number in range(20)]
    worker.push(*(link(host, path) for host in hosts for path in ("/1", "/2")))
    worker.done(*reversed(worker.lease().leases))
    assert crawl.state().ready == hosts[::-1]


def test_an_empty_settlement_changes_nothing(crawl: HandCrawl) -> None:
    worker, _ = _leased(crawl)
    assert worker.settle() == []
    assert crawl.state() == BEFORE


def _assert_only_counted_as_late(before: State, after: State) -> None:
    assert after.raw.pop("counts") == {
        **before.raw.pop("counts"),
        b"late": b"%d" % (before.counts.get("late", 0) + 1),
    }
    assert after.raw == before.raw
