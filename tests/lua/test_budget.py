"""give.lua, take.lua and given.lua: page budget moves between shards, and no page is lost.

The shard under test plays both sides; who the other is does not matter to a script.
"""

from __future__ import annotations

from tests.lua.helpers import A, B, HandCrawl, Host, State, link, with_worker


def test_a_shard_offers_what_its_own_urls_cannot_use(crawl: HandCrawl) -> None:
    crawl.open(pages=10)
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(A, "/2"), link(B, "/1"))
    worker.done(worker.lease_one())
    assert worker._call("give", [2]) == [1, 2, 7]
    assert crawl.state() == with_worker(
        meta={"state": "running", "pages": 3, "offer": [1, 2, 7]},
        counts={"discovered": 3, "queued": 2, "done": 1},
        hosts={A: Host([0], pages=1, at="ready"), B: Host([0], at="ready")},
        ready=[B, A],
        queues={A: {0: ["/2"]}, B: {0: ["/1"]}},
        layers=[3],
    )


def test_an_offer_stands_until_it_is_known_to_be_taken(crawl: HandCrawl) -> None:
    crawl.open(pages=10)
    worker = crawl.stranger()
    assert worker._call("give", [1]) == [1, 1, 10]
    assert worker._call("give", [2]) == [1, 1, 10]
    assert worker._call("given", [7]) == 0
    assert worker._call("given", [1]) == 1
    assert worker._call("given", [1]) == 0
    assert crawl.state() == State(meta={"state": "running", "pages": 0})


def test_a_shard_without_spare_pages_offers_none(crawl: HandCrawl) -> None:
    crawl.open(pages=1)
    worker = crawl.stranger()
    worker.push(link(A, "/1"), link(A, "/2"))
    before = crawl.state()
    assert worker._call("give", [1]) == []
    assert crawl.state().raw == before.raw


def test_an_offer_is_taken_once_however_often_it_arrives(crawl: HandCrawl) -> None:
    crawl.open(pages=1)
    worker = crawl.stranger()
    assert [worker._call("take", [3, 1, 5]) for _ in range(3)] == [6, 6, 6]
    assert worker._call("take", [4, 1, 5]) == 11
    assert crawl.state() == State(meta={"state": "running", "pages": 11, "took:3": 1, "took:4": 1})


def test_an_offer_that_arrives_after_the_next_one_is_not_taken_again(crawl: HandCrawl) -> None:
    crawl.open(pages=0)
    worker = crawl.stranger()
    assert [worker._call("take", [3, number, 5]) for number in (1, 2, 1)] == [5, 10, 10]


def test_more_budget_lets_a_shard_at_its_limit_go_on(crawl: HandCrawl) -> None:
    crawl.open(pages=1)
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(A, "/2"))
    worker.done(worker.lease_one())
    assert worker.lease().state == "limit"
    assert worker.wants_pages() is True
    worker._call("take", [1, 1, 1])
    assert worker.wants_pages() is False
    assert worker.done(worker.lease_one()) == []
