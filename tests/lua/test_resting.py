"""wake_resting.lua, reschedule.lua, and how settle.lua lets pages rest: they are done, and counted
so, until they are due and the budget has room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crawlproj.frontier import resting
from crawlproj.frontier.levels import HIGHEST, REVISIT
from crawlproj.frontier.messages import Push, Settlement
from crawlproj.frontier.records import encode_link, encode_visited
from crawlproj.frontier.resting import Census
from crawlproj.frontier.visits import History, Visit
from tests.lua.helpers import (
    MINUTE_MS,
    A,
    B,
    C,
    HandCrawl,
    Host,
    entry,
    link,
    paths,
    seed,
    shown,
    unfiltered,
    with_worker,
)
from tests.lua.helpers import Worker as HandWorker

PLENTY = "1000000/s"


def rested(crawl: HandCrawl, paths: int = 1, delay: int = 10, **limits: Any) -> HandWorker:
    """A worker, and so many pages of a host that were fetched and are due after so many minutes."""
    crawl.open(**{"refresh": PLENTY, "per_host": 100, **limits})
    worker = crawl.worker()
    worker.push(*(link(A, f"/{number}", 4) for number in range(paths)))
    leases = worker.lease().leases
    worker.settle(*(done(lease.token, lease.entry, delay) for lease in leases))
    return worker


def done(token: int, again: bytes, delay: int = 10) -> Settlement:
    return Settlement(token, "done", entry=again, delay_ms=delay * MINUTE_MS)


def wake(worker: HandWorker, most: int = 100) -> int:
    return worker.run(resting.wake(worker.shard, most, MINUTE_MS)).urls


def test_a_page_rests_as_done_and_is_queued_before_new_pages_when_it_is_due(
    crawl: HandCrawl,
) -> None:
    worker = rested(crawl, paths=2)
    worker.push(link(A, "/new", 4))
    before = with_worker(
        counts={"discovered": 3, "done": 2, "resting": 2, "queued": 1},
        hosts={A: Host([4], pages=2, at="ready")},
        ready=[A],
        queues={A: {4: ["/new"]}},
        resting={(A, "/0"): (10, "done"), (A, "/1"): (10, "done")},
        layers=[3],
    )
    assert crawl.state() == before
    assert wake(worker) == 0
    assert crawl.state() == before
    crawl.at(10.1)
    assert wake(worker, 1) == 1
    state = crawl.state()
    waiting = {"queued": 2, "revisits": 1, "woken": 1}
    assert state.counts == {"discovered": 3, "done": 1, "resting": 1, **waiting}
    assert state.hosts == {A: Host([4, REVISIT], pages=1, at="ready", woken=1)}
    assert len(state.queues[A][REVISIT]) == 1


def test_a_revisit_that_is_lost_with_its_worker_is_queued_again(crawl: HandCrawl) -> None:
    rested(crawl)
    crawl.at(11)
    mortal = crawl.worker("m", timeout_minutes=5)
    assert wake(mortal) == 1
    mortal.lease_one()
    crawl.at(20)
    crawl.worker("other").reclaim()
    assert crawl.state().queues == {A: {REVISIT: ["/0'"]}}


def test_one_that_is_given_up_rests_no_more(crawl: HandCrawl) -> None:
    worker = rested(crawl)
    crawl.at(11)
    wake(worker)
    worker.settle(Settlement(worker.lease_one().token, "dead", reason="http_410"))
    state = crawl.state()
    assert state.resting == {}
    assert state.counts["dead"] == 1
    assert "done" not in state.counts


def test_a_sitemap_rests_as_what_it_was_filtered_for(crawl: HandCrawl) -> None:
    crawl.open(refresh=PLENTY)
    worker = crawl.worker()
    worker.push(link(A, "/map.xml"))
    token = worker.lease_one().token
    again = entry("/map.xml")
    worker.settle(Settlement(token, "filtered", reason="sitemap", entry=again, delay_ms=0))
    assert crawl.state().resting == {(A, "/map.xml"): (0, "filtered:sitemap")}
    crawl.at(1)
    assert wake(worker) == 1
    assert crawl.state().counts == {"discovered": 1, "queued": 1, "woken": 1}


def test_what_was_asked_for_twice_rests_once(crawl: HandCrawl) -> None:
    worker = rested(crawl)
    worker.push(link(A, "/other"))
    worker.settle(done(worker.lease_one().token, entry("/0"), delay=20))
    state = crawl.state()
    assert state.resting == {(A, "/0"): (20, "done")}
    assert state.counts["done"] == 2


def test_no_more_is_woken_than_the_budget_has_and_what_is_not_used_is_saved_for_seconds(
    crawl: HandCrawl,
) -> None:
    worker = rested(crawl, paths=90, delay=0, refresh="2/s")
    assert wake(worker) == 10, "a crawl begins with what five seconds bring"
    crawl.at(0.5)
    wake(worker)  # when the first visits are paid for
    crawl.at(0.6)
    assert wake(worker) == 10, "of six seconds, five are saved"
    crawl.at(0.6 + 2.2 / 60)
    assert wake(worker) == 4


@pytest.mark.parametrize(("budget", "paths"), [("2/s", 30), ("6/min", 3)])
def test_the_budget_lies_idle_only_where_nothing_else_is_due(
    crawl: HandCrawl, budget: str, paths: int
) -> None:
    worker = rested(crawl, paths=paths, delay=0, refresh=budget)

    def idle(most: int = 100) -> float:
        return worker.run(resting.wake(worker.shard, most, MINUTE_MS)).saved

    crawl.at(1)
    idle()  # when the first visits are paid for
    crawl.at(2)
    assert idle(most=1) == 0, "whoever asks wants no more"
    crawl.at(2 + 0.9 / 60)
    assert idle() == 0, "what does not make up one visit is not idle"
    for minute in range(3, 9):
        crawl.at(minute)
        found = idle()
    assert found == 1


def test_new_pages_are_paid_for_first_and_leave_a_tenth(crawl: HandCrawl) -> None:
    worker = rested(crawl, paths=90, delay=0, refresh="60/min")
    wake(worker)
    worker.push(*(link(B, f"/{number}") for number in range(90)))
    woken = 0
    for second in range(1, 41):
        crawl.at(second / 60)
        woken += wake(worker)
        for lease in worker.lease(2).leases:
            worker.done(lease)
    assert 3 <= woken <= 5, "of forty"


@pytest.mark.parametrize(("new", "shown_as"), [(9, "rnrnrnrnrnrn"), (0, "rrrrrr")])
def test_a_slow_host_has_new_pages_and_revisits_by_turns(
    crawl: HandCrawl, new: int, shown_as: str
) -> None:
    worker = rested(crawl, paths=6)
    crawl.redis.hset(crawl.key("meta"), mapping={"delay_ms": MINUTE_MS, "per_host": 1})
    worker.push(*(link(A, f"/new{number}", 4) for number in range(new)))
    fetched = ""
    for minute in range(20, 32):
        crawl.at(minute * 1.01)
        wake(worker)
        for lease in worker.lease().leases:
            fetched += "n" if b"new" in lease.entry else "r"
            worker.done(lease, pause_ms=MINUTE_MS)
    assert fetched == shown_as


def test_hosts_that_share_a_pace_share_the_turns_of_revisits(crawl: HandCrawl) -> None:
    crawl.open(refresh=PLENTY, group="domain", per_host=100)
    worker, hosts = crawl.worker(), [f"http://{name}" for name in "abcdef"]

    def push(*paths: str) -> None:
        links = [link(host, path, 4)._replace(group="g") for host in hosts for path in paths]
        worker.push(*links)

    push("/0", "/1")
    worker.settle(*(done(lease.token, lease.entry) for lease in worker.lease().leases))
    crawl.redis.hset(crawl.key("meta"), mapping={"delay_ms": MINUTE_MS, "per_host": 1})
    push("/new0", "/new1")
    fetched = ""
    for minute in range(20, 32):
        crawl.at(minute * 1.01)
        wake(worker)
        for lease in worker.lease().leases:
            fetched += "n" if b"new" in lease.entry else "r"
            worker.done(lease, pause_ms=MINUTE_MS)
    assert fetched == "rnrnrnrnrnrn"


@pytest.mark.parametrize("failed", [1, 2])
def test_pages_of_a_host_that_is_held_rest_until_it_no_longer_is(
    crawl: HandCrawl, failed: int
) -> None:
    """2: its server said that it is asked too much, which holds its group."""
    crawl.open(refresh=PLENTY, group="domain", per_host=100)
    worker = crawl.worker()
    worker.push(*(link(A, path)._replace(group="g") for path in ("/0", "/1", "/2")))
    *others, last = worker.lease().leases
    worker.settle(*(done(lease.token, lease.entry) for lease in others))
    held = Settlement(last.token, "dead", reason="http_503", failed=failed, hold_ms=40 * MINUTE_MS)
    worker.settle(held)
    crawl.at(11)
    assert wake(worker) == 0
    state = crawl.state()
    assert state.resting == {(A, path): (40, "done") for path in ("/0", "/1")}
    assert "revisits" not in state.counts
    crawl.at(41)
    assert wake(worker) == 2


def test_turns_that_come_between_two_polls_are_not_lost(crawl: HandCrawl) -> None:
    worker = rested(crawl, paths=60)
    crawl.redis.hset(crawl.key("meta"), mapping={"delay_ms": 250, "per_host": 1})
    woken = 0
    for half_second in range(20):
        crawl.at(20 + half_second / 120)
        woken += wake(worker)
    assert 38 <= woken <= 40, "four a second"


def test_pages_of_the_budget_are_used_by_revisits_too(crawl: HandCrawl) -> None:
    worker = rested(crawl, paths=2, pages=3)
    worker.push(link(A, "/new"))
    crawl.at(11)
    assert wake(worker) == 1
    batch = worker.lease()
    assert [shown(one.entry) for one in batch.leases] in (["/0"], ["/1"])
    worker.settle(done(batch.leases[0].token, batch.leases[0].entry))
    assert worker.lease().state == "limit"
    assert wake(worker) == 0
    assert crawl.state().counts["revisits"] == 1


def test_no_more_is_woken_than_the_page_budget_has_left_beside_what_waits(crawl: HandCrawl) -> None:
    worker = rested(crawl, paths=4, pages=7)
    worker.push(seed(B, "/seed", HIGHEST + 0.1), *(link(C, f"/{number}") for number in range(9)))
    crawl.at(11)
    assert (wake(worker, 1), wake(worker), wake(worker)) == (1, 1, 0)
    fetched = paths(worker.lease())
    assert sorted(fetched)[2:] == ["/seed"], "two woken pages and the seed, and no link"
    assert worker.lease().state == "limit"


@pytest.mark.parametrize("budget", ["pages_per_host", "pages_per_domain"])
@pytest.mark.parametrize("push", [link, seed])
def test_a_page_that_is_revisited_keeps_its_place_in_the_budget_of_its_host(
    crawl: HandCrawl, budget: str, push: Callable[..., Push]
) -> None:
    crawl.open(refresh=PLENTY, **{budget: 3})
    worker, group = crawl.worker(), "g" if budget == "pages_per_domain" else ""
    for number in range(3):
        worker.push(link(A, f"/{number}")._replace(group=group))
        lease = worker.lease_one()
        worker.settle(done(lease.token, lease.entry, delay=10 * (number + 1)))
    crawl.at(11)
    assert wake(worker) == 1
    lease = worker.lease_one()
    level = HIGHEST + 0.1 if push is seed else 4
    worker.push(push(A, "/new", level)._replace(group=group))
    again = Settlement(lease.token, "retry", entry=lease.entry, delay_ms=2 * MINUTE_MS)
    worker.settle(again)
    assert paths(worker.lease()) == [], "the place is kept while it waits"
    crawl.at(14)
    [lease] = worker.lease().leases
    assert shown(lease.entry) == "/0'"
    worker.settle(done(lease.token, lease.entry, delay=60))
    state = crawl.state()
    assert (state.counts["done"], state.counts["resting"]) == (3, 3)
    assert sum(number for name, number in state.counts.items() if "_limit" in name) == 1


@pytest.mark.parametrize("state", ["paused", "stopping"])
def test_nothing_is_woken_unless_the_crawl_runs(crawl: HandCrawl, state: Any) -> None:
    worker = rested(crawl)
    crawl.at(11)
    worker.set_state(state, ["running"])
    assert wake(worker) == 0


def test_what_cannot_be_read_is_set_aside_and_stays_done(crawl: HandCrawl) -> None:
    worker = rested(crawl, paths=2)
    [number, _] = crawl.redis.hkeys(crawl.key("resting"))
    crawl.redis.hset(crawl.key("resting"), number, b"\xc1 damaged")
    crawl.at(11)
    assert wake(worker) == 1
    state = crawl.state()
    assert (state.counts["corrupt"], state.counts["done"], state.resting) == (1, 1, {})


def test_a_census_is_told_to_all_and_moves_only_what_rests(crawl: HandCrawl) -> None:
    crawl.open(refresh="5/s")
    worker = crawl.worker()
    worker.push(link(A, "/"))
    token, now_ms = worker.lease_one().token, worker.run(worker.shard.now_ms())
    visit = Visit(now_ms, History(1, 0, 60), b"8 bytes.", 1_700_000_000, b'W/"1"')
    again = encode_visited(encode_link("/page", 3, "http://a/"), 70, visit.pack())
    worker.settle(done(token, again))
    [found] = worker.run(resting.sample(worker.shard, 10))
    assert found.number == resting.number_of(A, "/page")
    assert (found.priority, found.visit) == (70, visit)
    census = Census(0.25, 1e-6, 1.1)
    due_ms = {found.number: now_ms + 60_000, b"not here": now_ms}
    worker.run(resting.reschedule(worker.shard, due_ms, census, 2.5))
    [moved] = worker.run(resting.among(worker.shard, [found.number, b"not here"]))
    assert moved.due_ms == now_ms + 60_000
    other = crawl.worker("other")
    told = other.run(resting.wake(other.shard, 10, 60_000))
    assert (told.census, told.is_turn) == (census, True)
    assert not other.run(resting.wake(other.shard, 10, 60_000)).is_turn


def test_the_next_crawl_of_the_name_has_nothing_at_rest(crawl: HandCrawl) -> None:
    worker = rested(crawl)
    worker.finish()
    crawl.open(run="another")
    assert crawl.state().resting == {}


def test_a_resting_page_takes_as_many_bytes_as_the_documentation_says(crawl: HandCrawl) -> None:
    crawl.open(refresh=PLENTY, per_host=5000)
    worker = crawl.worker()
    paths = [f"/section-{number % 50:02}/some-page-of-it-{number:012}" for number in range(4000)]
    for first in range(0, 4000, 500):
        worker.push(*(unfiltered(A, path) for path in paths[first : first + 500]))
    visit = Visit(1_800_000_000_000, History(3, 1e5, 1e6), b"8 bytes.", 1_700_000_000, b"e" * 20)
    visited = visit.pack()
    settlements = []
    for lease, path in zip(worker.lease(4000).leases, paths, strict=True):
        again = encode_visited(encode_link(path, 3, A + paths[0]), 70, visited)
        settlements.append(done(lease.token, again))
    worker.settle(*settlements)
    taken = sum(crawl.redis.memory_usage(crawl.key(name), samples=0) for name in ("resting", "due"))
    assert 310 < taken / len(paths) < 350
