"""finish.lua, set_state.lua and filter_queued.lua: how a crawl pauses, stops and ends."""

from __future__ import annotations

import pytest

from crawlproj.frontier.messages import Settlement
from tests.lua.helpers import MINUTE_MS, A, B, C, HandCrawl, Host, State, link, with_worker


def test_a_crawl_with_nothing_left_is_finished(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.stranger()
    assert worker.finish() == "finished"
    assert crawl.state() == State(meta={"state": "finished"})
    assert worker.finish() == "finished"


def test_a_queued_a_leased_and_a_delayed_url_each_keep_the_crawl_running(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"))
    assert worker.finish() == "running"
    lease = worker.lease_one()
    assert worker.finish() == "running"
    worker.settle(Settlement(lease.token, "retry", delay_ms=MINUTE_MS))
    assert worker.finish() == "running"
    crawl.at(2)
    worker.settle(Settlement(worker.lease_one().token, "dead", reason="dns"))
    assert worker.finish() == "finished"


def test_a_shard_does_not_finish_while_others_may_have_work(crawl: HandCrawl) -> None:
    crawl.open()
    assert crawl.stranger().finish(others_at_rest=False) == "running"
    assert crawl.state() == State()


def test_a_stopping_crawl_is_stopped_when_no_lease_is_out(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(A, "/2"))
    lease = worker.lease_one()
    worker.set_state("stopping", ["running"])
    assert worker.finish() == "stopping"
    worker.done(lease)
    assert worker.finish(others_at_rest=False) == "stopped"
    assert crawl.state() == with_worker(
        meta={"state": "stopped"},
        counts={"discovered": 2, "queued": 1, "done": 1},
        hosts={A: Host([0], pages=1, at="ready")},
        ready=[A],
        queues={A: {0: ["/2"]}},
        layers=[2],
    )


def test_a_paused_crawl_does_not_end(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.stranger()
    assert worker.set_state("paused", ["running"]) == "paused"
    assert worker.finish() == "paused"
    assert worker.set_state("running", ["paused"]) == "running"
    assert worker.finish() == "finished"


def test_a_state_is_reached_only_from_those_allowed(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.stranger()
    assert worker.set_state("running", ["paused", "finished"]) == "running"
    worker.finish()
    before = crawl.state()
    assert worker.set_state("paused", ["running"]) == "finished"
    assert worker.set_state("paused", ["finish"]) == "finished"
    assert crawl.state().raw == before.raw
    assert worker.set_state("running", ["finished"]) == "running"


@pytest.mark.parametrize(("timeout_minutes", "state"), [(9, "stopping"), (1, "stopped")])
def test_stopping_is_stopped_at_once_if_no_worker_is_alive(
    crawl: HandCrawl, timeout_minutes: int, state: str
) -> None:
    crawl.open()
    worker = crawl.worker(timeout_minutes=timeout_minutes)
    crawl.at(2)
    assert worker.set_state("stopping", ["running", "paused"]) == state


def test_what_is_queued_and_delayed_is_filtered_and_what_is_out_is_not(
    crawl: HandCrawl,
) -> None:
    crawl.open(per_host=2)
    worker = crawl.worker()
    worker.push(*(link(host, f"/{n}") for host in (A, B) for n in range(4)), link(C, "/"))
    first, *_ = worker.lease(5).leases
    worker.settle(Settlement(first.token, "retry", delay_ms=MINUTE_MS))
    assert worker.filter_queued("page_limit") == 3
    assert worker.filter_queued("page_limit") == 0
    state = crawl.state()
    assert state.counts == {"discovered": 9, "leased": 4, "queued": 2, "filtered:page_limit": 3}
    assert state.queues == {B: {0: ["/2", "/3"]}}
    [*out] = worker.held_leases()
    worker.done(*out)
    assert worker.filter_queued("page_limit") == 2
    assert crawl.state() == with_worker(
        counts={"discovered": 9, "done": 4, "filtered:page_limit": 5},
        hosts={A: Host(pages=1), B: Host(pages=2), C: Host(pages=1)},
        layers=[9],
    )


def test_queues_are_filtered_some_hosts_a_call(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(*(link(f"http://h{n}", "/") for n in range(5)))
    assert [worker.filter_queued("page_limit", 2) for _ in range(4)] == [2, 2, 1, 0]


def test_a_lease_whose_reply_was_lost_tells_of_its_host_what_the_reply_did(
    crawl: HandCrawl,
) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(*(link(A, f"/{n}") for n in range(3)))
    for _ in range(2):
        worker.done(worker.lease_one(), failed=1)
    lost = worker.lease_one()
    assert (lost.host_failures, lost.host_pages) == (2, 2)
    assert worker.held_leases() == [lost]
