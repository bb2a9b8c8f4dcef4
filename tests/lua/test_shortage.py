"""lease.lua, where workers have too little to do: what one has ahead, others go without."""

from __future__ import annotations

from crawlproj.frontier.messages import Settlement
from tests.lua.helpers import A, B, HandCrawl, Worker, link, paths

BEGINS = 2
"""Connections of each worker; it asks for as many ahead."""


def crew(crawl: HandCrawl, *names: str, per_host: int = 4) -> list[Worker]:
    crawl.open(per_host=per_host)
    workers = [crawl.worker(name) for name in names]
    workers[0].push(*(link(A, f"/{number}") for number in range(10)))
    return workers


def test_a_worker_leases_ahead_while_nobody_goes_without(crawl: HandCrawl) -> None:
    first, _ = crew(crawl, "first", "second")
    batch = first.lease(2 * BEGINS, begins=BEGINS)
    assert len(batch.leases) == 2 * BEGINS and not batch.short_at


def test_a_connection_that_is_free_goes_to_who_can_use_it_now(crawl: HandCrawl) -> None:
    first, second = crew(crawl, "first", "second")
    leases = first.lease(2 * BEGINS, begins=BEGINS).leases
    assert second.lease(2 * BEGINS, begins=BEGINS).leases == []
    first.done(*leases[:BEGINS])
    batch = first.lease(BEGINS, begins=0)
    assert batch.leases == [] and batch.short_at
    assert len(second.lease(2 * BEGINS, begins=BEGINS).leases) == BEGINS


def test_what_was_ahead_and_is_returned_is_next_and_in_its_order(crawl: HandCrawl) -> None:
    first, second = crew(crawl, "first", "second")
    ahead = first.lease(2 * BEGINS, begins=BEGINS).leases[BEGINS:]
    second.lease(1)
    first.settle(*(Settlement(one.token, "return") for one in reversed(ahead)))
    assert paths(second.lease(2 * BEGINS, begins=BEGINS)) == ["/2", "/3"]
    assert crawl.state().counts["leased"] == 2 * BEGINS


def test_hosts_that_are_left_over_are_leased_ahead_all_the_same(crawl: HandCrawl) -> None:
    first, second = crew(crawl, "first", "second")
    first.lease(4)
    second.lease(BEGINS)
    first.push(*(link(f"http://other{number}", "/") for number in range(5)))
    batch = first.lease(5, begins=0)
    assert len(batch.leases) == 5 - BEGINS and not batch.short_at


def test_what_went_without_is_forgotten_after_a_while(crawl: HandCrawl) -> None:
    first, second = crew(crawl, "first", "second", per_host=1)
    first.lease(1)
    second.lease(1)
    crawl.at(1)
    first.push(link(B, "/1"))
    batch = first.lease(1, begins=0)
    assert len(batch.leases) == 1 and not batch.short_at


def test_a_worker_that_is_alone_takes_nothing_from_others(crawl: HandCrawl) -> None:
    [alone] = crew(crawl, "alone", per_host=1)
    alone.lease(3)
    alone.push(link(B, "/1"))
    batch = alone.lease(1, begins=0)
    assert len(batch.leases) == 1 and not batch.short_at
    assert not crawl.redis.hexists(crawl.key("meta"), "shortage")
