"""Leases that are copied, where the crawl speculates, and what becomes of a URL that two hold."""

from __future__ import annotations

from typing import Any

import pytest

from crawlproj.frontier.messages import Lease, Settlement
from crawlproj.frontier.records import encode_link, encode_rest
from tests.lua.helpers import (
    MINUTE_MS,
    ROBOTS_TXT,
    A,
    HandCrawl,
    Host,
    State,
    Worker,
    link,
    paths,
    shown,
    structures,
)

A_MINUTE = 31
"""The bucket of leases that last a minute: they are old after a little more than two."""


class Pair:
    """One URL of `http://a` that two workers hold."""

    def __init__(self, crawl: HandCrawl, **limits: Any) -> None:
        self.crawl = crawl
        crawl.open(**{"speculate": True, "per_host": 2, "max_attempts": 3, **limits})
        know_durations(crawl)
        crawl.at(0)
        self.slow, self.idle = crawl.worker("slow", 100), crawl.worker("idle")
        self.slow.push(link(A, "/a"))
        self.original = self.slow.lease_one()
        crawl.at(5)
        self.copy = self.idle.lease_one()

    @property
    def halves(self) -> dict[str, tuple[Worker, Lease]]:
        return {"original": (self.slow, self.original), "copy": (self.idle, self.copy)}

    def settle(self, half: str, verdict: Any, **how: Any) -> list[int]:
        worker, lease = self.halves[half]
        return worker.settle(Settlement(lease.token, verdict, **how))

    @property
    def counts(self) -> dict[str, int]:
        return self.crawl.state().counts

    @property
    def host(self) -> Host:
        return self.crawl.state().hosts[A]


def know_durations(crawl: HandCrawl, times: int = 100) -> None:
    crawl.redis.hset(crawl.key("durations"), A_MINUTE, times)


@pytest.fixture
def pair(crawl: HandCrawl) -> Pair:
    return Pair(crawl)


HALVES = pytest.mark.parametrize(
    ("first", "second"), [("original", "copy"), ("copy", "original")], ids=["original", "copy"]
)


def test_an_old_lease_is_leased_once_more_and_counted_once(pair: Pair) -> None:
    assert (pair.copy.entry, pair.copy.host) == (pair.original.entry, A)
    assert pair.counts == {"discovered": 1, "leased": 1, "copies": 1}
    assert pair.host == Host(out=2, copies=1)
    third = pair.crawl.worker("third")
    pair.crawl.at(50)
    assert paths(third.lease()) == []


@HALVES
@pytest.mark.parametrize(
    ("verdict", "counted"),
    [
        ("done", {"done": 1}),
        ("filtered", {"filtered:r": 1}),
        ("dead", {"dead": 1, "dead:r": 1}),
        ("set_aside", {"filtered:pattern": 1}),
    ],
)
def test_the_first_to_settle_wins_and_the_other_is_refused(
    pair: Pair, first: str, second: str, verdict: str, counted: dict[str, int]
) -> None:
    assert pair.settle(first, verdict, reason="r") == []
    assert pair.counts == {"discovered": 1, "copies": 1, "late": 1, **counted}
    assert (pair.host.out, pair.host.copies) == (1, 1)
    worker, lease = pair.halves[second]
    assert pair.settle(second, "done", pause_ms=7 * MINUTE_MS) == [lease.token]
    assert pair.counts == {"discovered": 1, "copies": 1, "late": 1, **counted}
    assert (pair.host.out, pair.host.copies, pair.host.cooling) == (0, 0, [12])
    assert worker.leave()


@HALVES
@pytest.mark.parametrize("verdict", ["retry", "wait", "return"])
def test_one_that_does_not_end_the_url_leaves_it_to_the_other(
    pair: Pair, first: str, second: str, verdict: str
) -> None:
    assert pair.settle(first, verdict, status=503, pause_ms=7 * MINUTE_MS) == []
    assert pair.counts == {"discovered": 1, "copies": 1, "leased": 1, "status:503": 1}
    assert (pair.host.out, pair.host.copies, pair.host.cooling) == (1, 0, [12])
    assert pair.settle(second, verdict, delay_ms=MINUTE_MS) == []
    counts = pair.counts
    assert counts.get("queued", 0) + counts.get("delayed", 0) == 1


@HALVES
def test_one_whose_worker_dies_leaves_it_to_the_other_with_an_attempt_more(
    pair: Pair, first: str, second: str
) -> None:
    worker, _ = pair.halves[first]
    worker.renew(0, {})
    reclaimed = pair.halves[second][0].reclaim()
    assert (reclaimed.workers, reclaimed.queued) == (1, 0)
    assert pair.counts == {"discovered": 1, "copies": 1, "leased": 1}
    assert (pair.host.out, pair.host.copies) == (1, 0)
    survivor, lease = pair.halves[second]
    [held] = survivor.held_leases()
    assert (held.token, shown(held.entry)) == (lease.token, "/a'")
    assert pair.settle(second, "done") == []
    assert pair.counts == {"discovered": 1, "copies": 1, "done": 1}


def test_when_both_workers_die_the_url_is_queued_again_once(pair: Pair) -> None:
    pair.slow.renew(0, {})
    pair.idle.renew(0, {})
    reclaimed = pair.crawl.stranger("third").reclaim()
    assert (reclaimed.workers, reclaimed.queued) == (2, 1)
    state = pair.crawl.state()
    assert state.delayed == [(5, A, 0, "/a''")]
    assert state.hosts[A].out == 0


@HALVES
def test_one_that_is_outrun_holds_its_connection_until_its_worker_is_dead(
    pair: Pair, first: str, second: str
) -> None:
    pair.settle(first, "done")
    worker, _ = pair.halves[second]
    worker.renew(0, {})
    pair.halves[first][0].reclaim()
    assert pair.counts == {"discovered": 1, "copies": 1, "done": 1, "late": 1}
    assert (pair.host.out, pair.host.copies) == (0, 0)


@HALVES
def test_one_that_is_kept_may_still_win_or_be_outrun(pair: Pair, first: str, second: str) -> None:
    pair.settle(first, "keep")
    assert (pair.host.out, pair.host.kept, pair.host.copies) == (1, 1, 1)
    pair.settle(second, "keep")
    assert (pair.host.out, pair.host.kept, pair.host.copies) == (0, 2, 1)
    assert pair.settle(second, "done") == []
    assert pair.settle(first, "done") == [pair.halves[first][1].token]
    assert (pair.host.out, pair.host.kept, pair.host.copies) == (0, 0, 0)
    assert pair.counts == {"discovered": 1, "copies": 1, "done": 1, "late": 1}


def test_the_heartbeat_tells_which_leases_are_outrun(pair: Pair) -> None:
    assert pair.slow.renew(MINUTE_MS, {}).outrun == ()
    pair.settle("copy", "done")
    assert pair.slow.renew(MINUTE_MS, {}).outrun == ((0, pair.original.token),)


def test_who_settles_hears_of_the_other_lease_also_if_that_is_gone(pair: Pair) -> None:
    pair.settle("copy", "return")
    pair.settle("original", "done")
    assert pair.slow.shard.outrun == {pair.original.token: pair.copy.token}
    assert pair.idle.shard.outrun == {}


def test_a_crawl_ends_while_one_is_outrun_and_the_next_begins_without_a_trace(pair: Pair) -> None:
    pair.settle("copy", "done")
    assert pair.idle.finish() == "finished"
    pair.crawl.open(run="another")
    assert structures(pair.crawl.redis) == State()


@pytest.mark.parametrize(
    ("limits", "leased"),
    [({"pages": 2}, ["/b"]), ({"pages_per_host": 2}, ["/b"]), ({"pages_per_host": 1}, [])],
)
def test_a_copy_takes_no_page_of_a_budget(
    crawl: HandCrawl, limits: dict[str, int], leased: list[str]
) -> None:
    pair = Pair(crawl, per_host=4, **limits)
    pair.idle.push(link(A, "/b"), link(A, "/c"))
    assert paths(pair.idle.lease(5)) == leased
    assert crawl.state().hosts[A].copies == 1


def test_a_budget_that_is_used_up_allows_copies(crawl: HandCrawl) -> None:
    assert Pair(crawl, pages=1).copy.token


def test_a_pause_makes_no_copies_and_leaves_them_alone(crawl: HandCrawl) -> None:
    slow, idle = _old_lease(crawl)
    idle.set_state("paused", ["running"])
    assert paths(idle.lease()) == []
    idle.set_state("running", ["paused"])
    assert paths(idle.lease()) == ["/a"]
    idle.set_state("paused", ["running"])
    assert slow.done(*slow.held_leases()) == []


def test_one_that_moves_on_by_another_entry_leaves_the_url_to_the_other(pair: Pair) -> None:
    """As by a redirect that a middleware follows."""
    pair.settle("copy", "retry", entry=link(A, "/elsewhere").entry)
    assert pair.crawl.state().delayed == []
    pair.settle("original", "retry", entry=link(A, "/elsewhere").entry)
    assert [path for *_, path in pair.crawl.state().delayed] == ["/elsewhere'"]


def _old_lease(crawl: HandCrawl, *pushed: Any, **limits: Any) -> tuple[Worker, Worker]:
    crawl.open(**{"speculate": True, "per_host": 2, **limits})
    know_durations(crawl)
    crawl.at(0)
    slow, idle = crawl.worker("slow"), crawl.worker("idle")
    slow.push(*(pushed or [link(A, "/a")]))
    slow.lease()
    crawl.at(5)
    return slow, idle


@pytest.mark.parametrize(
    ("why", "limits"),
    [
        ("it is off", {"speculate": False}),
        ("the host allows one connection", {"per_host": 1}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_lease_is_not_copied_where(crawl: HandCrawl, why: str, limits: dict[str, Any]) -> None:
    _, idle = _old_lease(crawl, **limits)
    assert paths(idle.lease()) == []


def test_a_lease_is_not_copied_by_its_own_worker_or_while_it_is_young(crawl: HandCrawl) -> None:
    slow, idle = _old_lease(crawl)
    assert paths(slow.lease()) == []
    crawl.at(2)
    assert paths(idle.lease()) == []


def test_a_lease_is_not_copied_while_something_else_is_due_or_nobody_is_idle(
    crawl: HandCrawl,
) -> None:
    _, idle = _old_lease(crawl)
    idle.push(link("http://b", "/b"))
    assert paths(idle.lease(1)) == ["/b"]
    assert paths(idle.lease(1, begins=0)) == []
    assert paths(idle.lease(2, begins=2)) == ["/a"]


@pytest.mark.parametrize(
    "how", [{"pause_ms": 9 * MINUTE_MS}, {"hold_ms": 9 * MINUTE_MS}, {"failed": 1}]
)
def test_a_lease_is_not_copied_while_its_host_rests_is_held_or_fails(
    crawl: HandCrawl, how: dict[str, int]
) -> None:
    slow, idle = _old_lease(crawl, link(A, "/a"), link(A, "/b"))
    first, _ = sorted(slow.held_leases(), key=lambda lease: lease.token)
    slow.settle(Settlement(first.token, "done", **how))
    assert paths(idle.lease()) == []
    crawl.at(15)
    assert paths(idle.lease()) == ([] if "failed" in how else ["/b"])


@pytest.mark.parametrize(
    ("entry", "is_copied"),
    [
        (encode_link("/a", 0), True),
        (encode_rest("/a", {"method": "HEAD"}), True),
        (encode_rest("/a", {"method": "POST"}), False),
        (encode_rest("/a", {"body": "q=1"}), False),
        (encode_rest("/a", {"body": b"q=1"}), False),
    ],
    ids=["GET", "HEAD", "POST", "body", "bytes"],
)
def test_only_requests_that_may_be_repeated_are_copied(
    crawl: HandCrawl, entry: bytes, is_copied: bool
) -> None:
    _, idle = _old_lease(crawl, link(A, "/a")._replace(entry=entry))
    assert bool(idle.lease().leases) == is_copied


def test_a_robots_txt_for_which_a_host_waits_is_copied(crawl: HandCrawl) -> None:
    _, idle = _old_lease(crawl, link(A, "/robots.txt", ROBOTS_TXT))
    assert paths(idle.lease()) == ["/robots.txt"]


def test_how_long_leases_last_is_learnt_from_those_that_end(crawl: HandCrawl) -> None:
    crawl.open(speculate=True, per_host=100)
    crawl.at(0)
    slow, idle = crawl.worker("slow"), crawl.worker("idle")
    slow.push(*(link(A, f"/{number}") for number in range(20)))
    first, *others = slow.lease(20).leases
    crawl.at(1)
    slow.done(*others)
    crawl.at(50)
    assert paths(idle.lease()) == []  # nineteen are too few
    slow.push(link(A, "/more"))
    [more] = slow.lease(1).leases
    crawl.at(51)
    slow.done(more)
    crawl.at(52)
    assert paths(idle.lease()) == [shown(first.entry)]


def test_an_old_lease_is_found_behind_many_whose_hosts_have_no_connection_free(
    crawl: HandCrawl,
) -> None:
    crawl.open(speculate=True, per_host=2)
    know_durations(crawl)
    crawl.at(0)
    slow, idle = crawl.worker("slow", 100), crawl.worker("idle")
    slow.push(*(link(f"http://{number}", path) for number in range(50) for path in ("/a", "/b")))
    assert len(slow.lease(200).leases) == 100
    crawl.at(1)
    slow.push(link(A, "/free"))
    slow.lease_one()
    found: list[str] = []
    for ms in range(101):
        crawl.at(5 + ms / MINUTE_MS)
        found += paths(idle.lease())
    assert found == ["/free"]


def test_of_two_twins_the_damaged_one_is_no_twin(pair: Pair) -> None:
    pair.crawl.redis.hset(pair.crawl.key("leased", "slow"), pair.original.token, b"\xc1")
    assert pair.settle("original", "done") == [pair.original.token]
    assert pair.crawl.state().counts["leased"] == 1
    assert pair.settle("copy", "return") == []
    state = pair.crawl.state()
    assert (state.counts["queued"], state.hosts[A].out, state.hosts[A].copies) == (1, 0, 0)


def test_while_it_is_off_nothing_is_noted_of_leases(crawl: HandCrawl) -> None:
    def noted(*, speculate: bool) -> int:
        crawl.redis.flushall()
        crawl.opened = None
        crawl.open(speculate=speculate)
        worker = crawl.worker()
        worker.push(link(A, "/a"), link("http://b", "/b"))
        worker.done(worker.lease(2).leases[0])
        return int(crawl.redis.exists(crawl.key("leased_at"), crawl.key("durations")))

    assert noted(speculate=True) == 2
    assert noted(speculate=False) == 0
