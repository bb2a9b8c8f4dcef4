"""settle.lua, verdict `keep`: a page that cannot be settled yet is kept, and its host is not."""

from __future__ import annotations

from crawlproj.frontier.messages import Settlement
from tests.lua.helpers import MINUTE_MS, A, HandCrawl, Host, Worker, link, with_worker


def _keep_one(worker: Worker, **how: int) -> int:
    token = worker.lease_one().token
    assert worker.settle(Settlement(token, "keep", status=200, size=9, **how)) == []
    return token


def test_a_kept_url_stays_leased_and_its_host_goes_on(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(A, "/2"))
    token = _keep_one(worker)
    assert crawl.state() == with_worker(
        counts={"discovered": 2, "queued": 1, "leased": 1},
        hosts={A: Host([0], kept=1, at="ready")},
        ready=[A],
        queues={A: {0: ["/2"]}},
        leased={"w": {token: (A, 0, "/1")}},
        kept={token},
        layers=[2],
    )


def test_the_pause_of_a_kept_url_runs_from_the_end_of_its_request(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(A, "/2"))
    crawl.at(10)
    token = _keep_one(worker, ended_ago_ms=MINUTE_MS, pause_ms=5 * MINUTE_MS)
    assert crawl.state().waiting == [(A, 14)]
    crawl.at(20)
    worker.settle(Settlement(token, "done", ended_ago_ms=0, pause_ms=5 * MINUTE_MS, status=200))
    state = crawl.state()
    assert state.hosts[A] == Host([0], pages=1, at="ready")
    assert state.counts == {"discovered": 2, "queued": 1, "done": 1, "status:200": 1}


def test_keeping_twice_changes_nothing(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"))
    token = _keep_one(worker)
    before = crawl.state()
    worker.settle(Settlement(token, "keep"))
    assert crawl.state() == before


def test_a_kept_url_counts_against_the_page_budget_of_its_host(crawl: HandCrawl) -> None:
    crawl.open(pages_per_host=1)
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(A, "/2"))
    _keep_one(worker)
    assert worker.lease().leases == []


def test_what_a_dead_worker_kept_is_queued_again(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker(timeout_minutes=5)
    worker.push(link(A, "/1"))
    _keep_one(worker)
    crawl.at(6)
    assert crawl.stranger("other").reclaim().queued == 1
    state = crawl.state()
    assert state.hosts[A] == Host([0], at="ready")
    assert state.queues == {A: {0: ["/1'"]}}


def test_a_former_holder_keeps_nothing(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker(timeout_minutes=5)
    worker.push(link(A, "/1"))
    token = worker.lease_one().token
    crawl.at(6)
    crawl.stranger("other").reclaim()
    assert worker.settle(Settlement(token, "keep")) == [token]
    assert crawl.state().leased == {}
