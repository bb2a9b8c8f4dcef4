"""lease.lua: a host that falls due is left for a moment to the worker that is connected to it."""

from __future__ import annotations

from tests.lua.helpers import MINUTE_MS, A, B, HandCrawl, Worker, link

PAUSE_MS = 10 * MINUTE_MS
LEFT_MS = 2 * MINUTE_MS


def asked(crawl: HandCrawl, *names: str) -> list[Worker]:
    """Workers of which the first has asked A, which is due again at minute 10."""
    crawl.open(delay_s=PAUSE_MS / 1000)
    workers = [crawl.worker(name) for name in names]
    workers[0].push(link(A, "/1"), link(A, "/2"))
    workers[0].done(workers[0].lease_one(), pause_ms=PAUSE_MS)
    return workers


def test_the_worker_that_asked_a_host_last_has_it_first(crawl: HandCrawl) -> None:
    owner, other = asked(crawl, "owner", "other")
    crawl.at(10.1)
    batch = other.lease(left_ms=LEFT_MS)
    assert batch.leases == []
    assert batch.next_due_ms is not None and 0 < batch.next_due_ms <= LEFT_MS
    assert [lease.host for lease in owner.lease(left_ms=LEFT_MS).leases] == [A]


def test_a_host_that_its_worker_does_not_come_for_is_anybodys(crawl: HandCrawl) -> None:
    _, other = asked(crawl, "owner", "other")
    crawl.at(12.1)
    assert [lease.host for lease in other.lease(left_ms=LEFT_MS).leases] == [A]


def test_nobody_is_kept_from_hosts_that_no_other_has_asked(crawl: HandCrawl) -> None:
    owner, other = asked(crawl, "owner", "other")
    owner.push(link(B, "/1"))
    crawl.at(10.1)
    assert [lease.host for lease in other.lease(left_ms=LEFT_MS).leases] == [B]


def test_the_last_to_ask_is_the_one_who_counts(crawl: HandCrawl) -> None:
    owner, other = asked(crawl, "owner", "other")
    owner.push(link(A, "/3"))
    crawl.at(12.1)
    other.done(*other.lease(left_ms=LEFT_MS).leases, pause_ms=PAUSE_MS)
    crawl.at(22.2)
    assert owner.lease(left_ms=LEFT_MS).leases == []
    assert len(other.lease(left_ms=LEFT_MS).leases) == 1


def test_a_worker_that_is_alone_leaves_no_mark_and_waits_for_nobody(crawl: HandCrawl) -> None:
    [alone] = asked(crawl, "alone")
    assert b"last" not in crawl.redis.hget(crawl.key("hosts"), A)
    crawl.at(10.1)
    assert len(alone.lease(left_ms=LEFT_MS).leases) == 1
