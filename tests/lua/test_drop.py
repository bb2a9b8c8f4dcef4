"""drop_queued.lua and drop_delayed.lua: a user deletes what is queued."""

from __future__ import annotations

from crawlproj.frontier.levels import seed_level
from crawlproj.frontier.messages import Settlement
from crawlproj.frontier.wire import pack
from tests.lua.helpers import A, B, HandCrawl, Host, entry, link, paths, seed, with_worker


def _entries(*names: str) -> bytes:
    return pack([entry(path) for path in names])


def test_what_stays_goes_to_the_end_so_that_a_round_leaves_the_order_as_it_was(
    crawl: HandCrawl,
) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(*(link(A, f"/{n}") for n in range(5)), link(B, "/x"))
    first = [A, 0, _entries("/0", "/1", "/2"), _entries("/1")]
    assert worker.call("drop_queued", first) == [3, 1]
    assert crawl.state().queues[A][0] == ["/3", "/4", "/0", "/2"]
    assert worker.call("drop_queued", [A, 0, _entries("/3", "/4"), _entries("/4")]) == [2, 1]
    assert crawl.state() == with_worker(
        counts={"discovered": 6, "queued": 4, "filtered:deleted": 2},
        hosts={A: Host([0], at="ready"), B: Host([0], at="ready")},
        ready=[A, B],
        queues={A: {0: ["/0", "/2", "/3"]}, B: {0: ["/x"]}},
        layers=[6],
    )


def test_what_the_caller_has_not_seen_is_not_passed_over(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(*(link(A, f"/{n}") for n in range(4)))
    assert worker.lease_one().entry == entry("/0")  # after the caller has read the front
    told = [A, 0, _entries("/0", "/1"), _entries("/0", "/1")]
    assert worker.call("drop_queued", told) == [1, 1]
    assert crawl.state().queues[A][0] == ["/2", "/3"]
    assert worker.call("drop_queued", told) == [0, 0]
    assert worker.call("drop_queued", ["http://nobody", 0, b"", b""]) == [0, 0]


def test_a_host_without_queue_leaves_its_line_and_comes_back_with_its_next_url(
    crawl: HandCrawl,
) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/0"), link(A, "/1"), link(A, "/2", 7))
    assert worker.call("drop_queued", [A, 0, b"", b""]) == [2, 2]
    assert worker.call("drop_queued", [A, 7, _entries("/2"), _entries("/2")]) == [1, 1]
    assert crawl.state() == with_worker(
        counts={"discovered": 3, "filtered:deleted": 3}, hosts={A: Host()}, layers=[3]
    )
    assert worker.push(link(A, "/0"), link(A, "/new")) == [False, True]
    assert paths(worker.lease()) == ["/new"]


def test_pages_that_were_kept_for_deleted_seeds_are_free_for_links(crawl: HandCrawl) -> None:
    crawl.open(pages=2)
    worker, level = crawl.worker(), seed_level(0)
    worker.push(seed(A, "/s", level), seed(A, "/t", level), link(B, "/l"))
    assert worker.call("drop_queued", [A, level, b"", b""]) == [2, 2]
    assert paths(worker.lease()) == ["/l"]


def test_what_waits_for_another_attempt_is_deleted_once(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/0"))
    lease = worker.lease_one()
    worker.settle(Settlement(lease.token, "retry", entry=entry("/0", 1), delay_ms=60_000))
    [(member, _)] = crawl.redis.zrange(crawl.key("delayed"), 0, -1, withscores=True)
    assert worker.call("drop_delayed", [pack([member, b"damaged"])]) == 1
    assert worker.call("drop_delayed", [pack([member])]) == 0
    assert crawl.state().counts == {"discovered": 1, "filtered:deleted": 1}
