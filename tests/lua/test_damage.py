"""What someone else wrote, or damaged, is set aside and counted; all beside it goes on."""

from __future__ import annotations

import pytest

from crawlproj.frontier.messages import Settlement, Verdict
from crawlproj.frontier.wire import pack
from tests.lua.helpers import MINUTE_MS, A, B, HandCrawl, Host, link, packed, paths, with_worker

UNREADABLE = [
    b"",
    b"\xff\xff",
    b"\xdd\xff\xff\xff\xff",
    b"plain text",
    pack(5),
    pack(None),
    pack([]),
    pack([A, 0, b"\0\1/x"]),
    packed(A, 0),
    packed(1, 2, 3),
    packed(A, "high", b"\0\1/x"),
    packed(A, 2000, b"\0\1/x"),
    packed(A, 0.5, b"\0\1/x"),
    packed(A, float("nan"), b"\0\1/x"),
    pack(0) * 100_000,
    pack({"host": A}),
]


@pytest.mark.parametrize("foreign", UNREADABLE)
def test_a_foreign_retry_does_not_keep_others_from_being_due(
    crawl: HandCrawl, foreign: bytes
) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(B, "/1"))
    worker.settle(Settlement(worker.lease_one().token, "retry", delay_ms=MINUTE_MS))
    crawl.redis.zadd(crawl.key("delayed"), {foreign: 1})
    crawl.at(2)
    assert sorted(paths(worker.lease())) == ["/1", "/1'"]
    assert crawl.state() == with_worker(
        counts={"discovered": 2, "leased": 2, "corrupt": 1},
        hosts={A: Host(out=1), B: Host(out=1)},
        leased={"w": {2: (B, 0, "/1"), 3: (A, 0, "/1'")}},
        layers=[2],
    )


def test_a_retry_that_was_damaged_is_written_off(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"))
    worker.settle(Settlement(worker.lease_one().token, "retry", delay_ms=MINUTE_MS))
    crawl.redis.delete(crawl.key("delayed"))
    crawl.redis.zadd(crawl.key("delayed"), {b"\xc1": 1})
    assert worker.lease().leases == []
    assert crawl.state().counts == {"discovered": 1, "filtered:corrupt": 1, "corrupt": 1}
    assert worker.finish() == "finished"


def test_a_foreign_retry_is_counted_as_corrupt_when_queues_are_filtered(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"))
    worker.settle(Settlement(worker.lease_one().token, "retry", delay_ms=MINUTE_MS))
    crawl.redis.zadd(crawl.key("delayed"), {b"\xc1": 1})
    assert worker.filter_queued("page_limit") == 1
    counts = {"discovered": 1, "filtered:page_limit": 1, "corrupt": 1}
    assert crawl.state().counts == counts


@pytest.mark.parametrize("foreign", UNREADABLE)
def test_a_foreign_lease_does_not_keep_others_from_being_reclaimed(
    crawl: HandCrawl, foreign: bytes
) -> None:
    crawl.open()
    worker, silent = crawl.worker(), crawl.worker("silent", timeout_minutes=1)
    silent.push(link(A, "/1"))
    silent.lease()
    crawl.redis.hset(crawl.key("leased", "silent"), "foreign", foreign)
    assert [lease.token for lease in silent.held_leases() if lease.host == A] == [1]
    crawl.at(2)
    assert worker.reclaim()[:2] == (1, 1)
    assert crawl.state() == with_worker(
        counts={"discovered": 1, "queued": 1, "reclaimed": 1, "corrupt": 1},
        hosts={A: Host([0], at="ready")},
        ready=[A],
        queues={A: {0: ["/1'"]}},
        layers=[1],
    )


def test_a_lease_that_was_damaged_is_written_off_and_its_host_goes_on(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(A, "/2"), link(B, "/1"))
    damaged, sound = worker.lease().leases
    crawl.redis.hset(crawl.key("leased", "w"), damaged.token, b"\xc1")
    assert worker.done(damaged, sound) == [damaged.token]
    assert crawl.state() == with_worker(
        counts={
            "discovered": 3,
            "queued": 1,
            "done": 1,
            "filtered:corrupt": 1,
            "late": 1,
            "corrupt": 1,
        },
        hosts={A: Host([0], at="ready"), B: Host(pages=1)},
        ready=[A],
        queues={A: {0: ["/2"]}},
        layers=[3],
    )


DAMAGED_HOSTS = [
    b"",
    b"\xff",
    pack(5),
    pack([1]),
    pack({"levels": 3}),
    b"".join(map(pack, ([0], "one", [], 0, "ready"))),
    b"".join(map(pack, ([0], 0, [], 0, "elsewhere"))),
    b"".join(map(pack, ([0], 0, [], 0, "ready", 7))),
]


@pytest.mark.parametrize("damage", DAMAGED_HOSTS)
def test_a_damaged_host_is_rebuilt_from_its_queues_and_leases(
    crawl: HandCrawl, damage: bytes
) -> None:
    crawl.open(per_host=2)
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(A, "/2"), link(A, "/3", -7), link(A, "/4", 1000))
    lease = worker.lease_one()
    crawl.redis.hset(crawl.key("hosts"), A, damage)
    assert paths(worker.lease()) == ["/1"]
    assert crawl.state() == with_worker(
        counts={"discovered": 4, "queued": 2, "leased": 2, "corrupt": 1},
        hosts={A: Host([-7, 0], out=2)},
        queues={A: {-7: ["/3"], 0: ["/2"]}},
        leased={"w": {1: (A, 1000, "/4"), 2: (A, 0, "/1")}},
        layers=[4],
    )
    crawl.redis.hset(crawl.key("hosts"), A, damage)
    worker.done(lease)
    worker.push(link(A, "/5"))
    assert crawl.state().hosts == {A: Host([-7, 0], out=1, pages=1, at="ready")}


@pytest.mark.parametrize("line", ["ready", "waiting"])
def test_a_foreign_name_in_a_line_is_passed_over(crawl: HandCrawl, line: str) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"))
    crawl.redis.zadd(crawl.key(line), {"foreign": 1})
    assert paths(worker.lease()) == ["/1"]
    state = crawl.state()
    assert (state.ready, state.waiting) == ([], [])
    assert state.hosts == {A: Host(out=1), "foreign": Host()}


def test_a_record_that_someone_else_has_queued_is_counted_in(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"))
    crawl.redis.rpush(crawl.key("queue", f"0:{A}"), b"foreign")
    leases = worker.lease(5).leases
    assert len(leases) == 1
    worker.settle(Settlement(leases[0].token, "done"))
    [foreign] = worker.lease(5).leases
    assert foreign.entry == b"foreign"
    worker.settle(Settlement(foreign.token, "dead", reason="bad_record"))
    counts = crawl.state().counts
    assert counts["discovered"] == 2
    assert counts["done"] == counts["dead"] == counts["corrupt"] == 1
    assert worker.finish() == "finished"


def test_a_queue_that_vanished_does_not_hold_up_the_line(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(B, "/1"))
    crawl.redis.delete(crawl.key("queue", f"0:{A}"))
    assert [lease.host for lease in worker.lease().leases] == [B]
    crawl.redis.hincrby(crawl.key("counts"), "discovered", -1)
    crawl.redis.hincrby(crawl.key("counts"), "queued", -1)


@pytest.mark.parametrize("verdict", ["done", "dead", "retry", "wait", "return"])
def test_an_empty_entry_is_a_url_like_any_other(crawl: HandCrawl, verdict: Verdict) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1")._replace(entry=b""))
    batch = worker.lease()
    assert batch.leases[0].entry == b""
    assert worker.settle(Settlement(1, verdict, reason="bad_record")) == []


def test_an_empty_entry_survives_the_loss_of_its_worker(crawl: HandCrawl) -> None:
    crawl.open()
    silent = crawl.worker("silent", timeout_minutes=1)
    silent.push(link(A, "/1")._replace(entry=b""))
    silent.lease()
    crawl.at(2)
    assert silent.reclaim()[:2] == (1, 1)


def test_a_host_that_is_no_text_reaches_its_worker(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    crawl.redis.zadd(crawl.key("delayed"), {packed(b"\xff", 0, b"\0\1/", 9): 1})
    crawl.redis.hset(crawl.key("counts"), mapping={"delayed": 1, "discovered": 1})
    [lease] = worker.lease().leases
    assert worker.settle(Settlement(lease.token, "dead", reason="bad_record")) == []
    crawl.redis.flushall()
