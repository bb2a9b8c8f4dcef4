"""push.lua and lease.lua under `novelty` and `opic`: in-links raise a queued URL in place."""

from __future__ import annotations

import msgpack
import pytest

from crawlproj.discover.ranking import Novelty, Opic
from crawlproj.frontier.bloom import Geometry
from crawlproj.frontier.messages import Push
from crawlproj.frontier.records import encode_link
from tests.lua.helpers import A, B, HandCrawl, link

WEIGHTS = str(Novelty())


def found(host: str, path: str, level: float = 1) -> Push:
    return link(host, path, level)._replace(entry=encode_link(path, 0))


def leased_paths(worker: object, wanted: int = 100) -> list[str]:
    batch = worker.lease(wanted)  # type: ignore[attr-defined]
    return [msgpack.unpackb(lease.entry[2:])[0] for lease in batch.leases]


def test_a_link_that_is_found_again_rises_above_those_found_once(crawl: HandCrawl) -> None:
    crawl.open(per_host=10, novelty=WEIGHTS)
    worker = crawl.worker()
    worker.push(found(A, "/1"), found(A, "/2"), found(A, "/3"))
    worker.push(found(A, "/3"), found(A, "/2"), found(A, "/3"))
    assert crawl.state().hosts[A].levels == [1, 2, 3]
    assert leased_paths(worker) == ["/3", "/2", "/1"]


def test_being_found_while_leased_or_done_queues_nothing(crawl: HandCrawl) -> None:
    crawl.open(novelty=WEIGHTS)
    worker = crawl.worker()
    worker.push(found(A, "/1"))
    lease = worker.lease_one()
    worker.push(found(A, "/1"))
    worker.done(lease)
    worker.push(found(A, "/1"))
    assert worker.lease().leases == []
    assert crawl.state().queues == {}


def test_a_host_with_fewer_pages_comes_first(crawl: HandCrawl) -> None:
    crawl.open(novelty=WEIGHTS)
    worker = crawl.worker()
    worker.push(found(A, "/1"), found(A, "/2"), found(B, "/1"), found(B, "/2"))
    first = worker.lease(1).leases[0]
    assert first.host == A
    worker.done(first)
    # A has had a page now, which costs it 0.1.
    assert [worker.lease(1).leases[0].host for _ in range(2)] == [B, A]


def test_a_host_that_is_mentioned_often_comes_first(crawl: HandCrawl) -> None:
    crawl.open(novelty=WEIGHTS)
    worker = crawl.worker()
    worker.push(found(A, "/1"))
    worker.push(found(B, "/1"), *(found(B, f"/{n}") for n in range(2, 5)))
    assert worker.lease(1).leases[0].host == B


def test_a_link_that_was_dropped_with_its_queue_does_not_rise_again(crawl: HandCrawl) -> None:
    crawl.open(novelty=WEIGHTS, pages_per_host=1)
    worker = crawl.worker()
    worker.push(found(A, "/1"), found(A, "/2"), found(A, "/2"))
    lease = worker.lease_one()
    worker.done(lease)
    state = crawl.state()
    assert state.counts["filtered:host_limit"] == 1
    worker.push(found(A, "/1"))
    assert crawl.state().queues == {}


@pytest.mark.parametrize("budget", ["pages_per_host", "pages_per_domain"])
def test_a_long_queue_is_dropped_piece_by_piece(crawl: HandCrawl, budget: str) -> None:
    crawl.geometry = Geometry(10_000, 1e-7)
    crawl.open(novelty=WEIGHTS, **{budget: 1})
    worker, group = crawl.worker(), "g" if budget == "pages_per_domain" else ""
    worker.push(found(A, "/first", 9)._replace(group=group))
    first = worker.lease_one()
    for start in range(0, 5000, 500):
        some = [found(A, f"/{number}", number % 3) for number in range(start, start + 500)]
        worker.push(*(one._replace(group=group) for one in some))
    worker.done(first)
    left = [crawl.state().counts["queued"]]
    for _ in range(2):
        assert worker.lease().leases == []
        left.append(crawl.state().counts.get("queued", 0))
    assert left == [3000, 1000, 0]
    state = crawl.state()
    assert "found" not in state.raw
    assert (state.ready, state.waiting) == ([], [])


def test_under_opic_the_cash_of_links_adds_up_and_the_richest_comes_first(crawl: HandCrawl) -> None:
    """Four levels are twice the cash: 1/4 is level -8, 1/2 is -4, 3/8 rounds to -6."""
    crawl.open(per_host=10, novelty=str(Opic()))
    worker = crawl.worker()
    worker.push(found(A, "/1", -4), found(A, "/2", -8), found(A, "/3", -8))
    assert crawl.state().hosts[A].levels == [-8, -4]
    worker.push(found(A, "/3", -12), found(A, "/2", -8), found(A, "/2", -8))
    assert crawl.state().hosts[A].levels == [-6, -4, -2]
    assert leased_paths(worker) == ["/2", "/1", "/3"]


def test_under_opic_cash_for_pages_that_are_fetched_is_gone(crawl: HandCrawl) -> None:
    crawl.open(novelty=str(Opic()))
    worker = crawl.worker()
    worker.push(found(A, "/1", -4))
    lease = worker.lease_one()
    worker.push(found(A, "/1", 0))
    worker.done(lease)
    assert worker.lease().leases == []
    assert crawl.state().queues == {}
