"""offer_pages.lua, take_pages.lua and drop_offer.lua: page budget moves between shards, and no page
is lost. What of it is kept for seeds (lease.lua).

The shard under test plays both sides; who the other is does not matter to a script.
"""

from __future__ import annotations

from crawlproj.frontier.levels import seed_level
from crawlproj.frontier.messages import Push, Settlement
from tests.lua.helpers import (
    MINUTE_MS,
    ROBOTS_TXT,
    A,
    B,
    HandCrawl,
    Host,
    State,
    link,
    paths,
    seed,
    shown,
    unfiltered,
    with_worker,
)


def test_a_shard_offers_what_its_own_urls_cannot_use(crawl: HandCrawl) -> None:
    crawl.open(pages=10)
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(A, "/2"), link(B, "/1"))
    worker.done(worker.lease_one())
    assert worker.call("offer_pages", [2, 0]) == [1, 2, 7]
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
    assert worker.call("offer_pages", [1, 0]) == [1, 1, 10]
    assert worker.call("offer_pages", [2, 0]) == [1, 1, 10]
    assert worker.call("drop_offer", [7]) == 0
    assert worker.call("drop_offer", [1]) == 1
    assert worker.call("drop_offer", [1]) == 0
    assert crawl.state() == State(meta={"state": "running", "pages": 0})


def test_a_shard_without_spare_pages_offers_none(crawl: HandCrawl) -> None:
    crawl.open(pages=1)
    worker = crawl.stranger()
    worker.push(link(A, "/1"), link(A, "/2"))
    before = crawl.state()
    assert worker.call("offer_pages", [1, 0]) == []
    assert crawl.state().raw == before.raw


def test_a_shard_whose_urls_all_wait_keeps_the_pages_for_them(crawl: HandCrawl) -> None:
    crawl.open(pages=2)
    worker = crawl.worker()
    worker.push(*(link(A, f"/{number}") for number in range(5)))
    lease = worker.lease_one()
    assert worker.call("offer_pages", [1, 0]) == []
    worker.settle(Settlement(lease.token, "wait", delay_ms=MINUTE_MS, hold_ms=MINUTE_MS))
    assert worker.call("offer_pages", [1, 0]) == []


def test_an_offer_is_taken_once_however_often_it_arrives(crawl: HandCrawl) -> None:
    crawl.open(pages=1)
    worker = crawl.stranger()
    assert [worker.call("take_pages", [3, 1, 5]) for _ in range(3)] == [6, 6, 6]
    assert worker.call("take_pages", [4, 1, 5]) == 11
    assert crawl.state() == State(meta={"state": "running", "pages": 11, "took:3": 1, "took:4": 1})


def test_an_offer_that_arrives_after_the_next_one_is_not_taken_again(crawl: HandCrawl) -> None:
    crawl.open(pages=0)
    worker = crawl.stranger()
    assert [worker.call("take_pages", [3, number, 5]) for number in (1, 2, 1)] == [5, 10, 10]


def test_more_budget_lets_a_shard_at_its_limit_go_on(crawl: HandCrawl) -> None:
    crawl.open(pages=1)
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(A, "/2"))
    worker.done(worker.lease_one())
    assert worker.lease().state == "limit"
    assert worker.wants_pages() is True
    worker.call("take_pages", [1, 1, 1])
    assert worker.wants_pages() is False
    assert worker.done(worker.lease_one()) == []


def kept_seed(host: str, path: str, priority: int = 0) -> Push:
    """A seed as workers push it where a crawl has a page budget."""
    return seed(host, path, seed_level(priority))


def test_seeds_come_before_links_whatever_their_priorities(crawl: HandCrawl) -> None:
    crawl.open(pages=10)
    worker = crawl.worker()
    worker.push(link(A, "/link", 1000), kept_seed(A, "/low", -1000), kept_seed(A, "/high", 7))
    worker.push(link(B, "/link", 95), unfiltered(A, "/robots.txt", ROBOTS_TXT))
    order = []
    while leases := worker.lease(1).leases:
        order += [lease.host + shown(lease.entry) for lease in leases]
        worker.done(*leases)
    paths = [A + "/robots.txt", A + "/high", A + "/low", A + "/link", B + "/link"]
    assert order == paths


def test_no_link_is_ranked_so_high_that_it_stands_in_the_way_of_seeds(crawl: HandCrawl) -> None:
    crawl.open(pages=3, novelty="10 0.1 1 500")
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(A, "/2"), link(A, "/3"))
    worker.done(worker.lease_one())
    worker.push(seed(B, "/s", seed_level(-1000)), seed(B, "/t", seed_level(-1000)))
    worker.done(worker.lease_one())
    assert paths(worker.lease()) == ["/t"]


def test_the_last_pages_are_kept_for_seeds_that_are_not_due(crawl: HandCrawl) -> None:
    crawl.open(pages=3)
    worker = crawl.worker()
    worker.push(kept_seed(A, "/1"), kept_seed(A, "/2"), link(B, "/1"), link(B, "/2"))
    first = worker.lease_one()
    worker.settle(Settlement(first.token, "retry", delay_ms=10 * MINUTE_MS, pause_ms=MINUTE_MS))
    assert paths(worker.lease()) == ["/1"]
    assert worker.lease().leases == []
    crawl.at(2)
    worker.done(worker.lease_one())
    assert crawl.state().counts["reserved"] == 1
    assert worker.lease().leases == []
    crawl.at(11)
    assert paths(worker.lease()) == ["/1'"]
    assert worker.lease().state == "limit"


def test_a_seed_that_is_given_up_leaves_its_page_to_links(crawl: HandCrawl) -> None:
    crawl.open(pages=1)
    worker = crawl.worker()
    worker.push(link(B, "/1"), kept_seed(A, "/1"))
    worker.settle(Settlement(worker.lease_one().token, "dead", reason="gone"))
    assert paths(worker.lease()) == ["/1"]


def test_the_budget_of_a_host_and_of_a_domain_is_kept_for_seeds_too(crawl: HandCrawl) -> None:
    crawl.open(pages_per_host=2, pages_per_domain=3)
    worker = crawl.worker()
    both = [kept_seed(A, "/1"), kept_seed(A, "/2"), link(A, "/link"), link(B, "/link")]
    worker.push(*(one._replace(group="d") for one in [*both, kept_seed(B, "/1")]))
    tried = worker.lease_one()
    worker.settle(Settlement(tried.token, "retry", delay_ms=10 * MINUTE_MS))
    fetched = []
    while leases := worker.lease(1).leases:
        fetched += [lease.host + shown(lease.entry) for lease in leases]
        worker.done(*leases)
    assert fetched == [B + "/1", A + "/2"]
    crawl.at(11)
    worker.done(worker.lease_one())
    assert worker.lease().leases == []
    limited = {"filtered:host_limit": 1, "filtered:domain_limit": 1}
    assert crawl.state().counts == {"discovered": 5, "done": 3, **limited}


def test_links_wait_while_a_worker_knows_of_seeds_that_are_on_their_way(crawl: HandCrawl) -> None:
    crawl.open(pages=10)
    worker = crawl.worker()
    worker.push(link(A, "/link"), kept_seed(B, "/seed"))
    assert paths(worker.run(worker.shard.lease("w", 10, no_links=True))) == ["/seed"]
    assert paths(worker.lease()) == ["/link"]


def test_pages_that_links_could_have_are_given_to_seeds_elsewhere(crawl: HandCrawl) -> None:
    crawl.open(pages=10)
    worker = crawl.stranger()
    worker.push(*(link(A, f"/{number}") for number in range(20)), kept_seed(B, "/1"))
    assert worker.call("offer_pages", [2, 0]) == []
    assert worker.spare_pages() == 9
    assert worker.call("offer_pages", [2, 4]) == [1, 2, 4]


def test_a_delayed_seed_that_cannot_be_read_keeps_no_page(crawl: HandCrawl) -> None:
    crawl.open(pages=2)
    worker = crawl.worker()
    worker.push(kept_seed(A, "/1"), kept_seed(A, "/2"), link(B, "/1"), link(B, "/2"))
    worker.settle(Settlement(worker.lease_one().token, "retry", delay_ms=MINUTE_MS))
    [(packed, due)] = crawl.redis.zrange(crawl.key("delayed"), 0, -1, withscores=True)
    crawl.redis.zrem(crawl.key("delayed"), packed)
    crawl.redis.zadd(crawl.key("delayed"), {b"damaged": due})
    crawl.at(2)
    assert sorted(paths(worker.lease())) == ["/1", "/2"]
