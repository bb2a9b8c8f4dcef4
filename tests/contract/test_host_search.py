"""Hosts are found among many: by a part of their name, in an order, on all shards."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crawlproj.operate.dashboard.host_search import ORDERS, SHOWN, HostSearches, Question
from tests.contract.shared_crawl import HOSTS, SharedCrawl, done
from tests.lua.helpers import CRAWL, link
from tests.servers.frontier import push_all


async def find(searches: HostSearches, text: str = "", order: str = "queued") -> dict[str, Any]:
    """Ask until it has looked at all of them."""
    while not (found := await searches.ask(Question(CRAWL, text, order)))["is_over"]:
        await asyncio.sleep(0.01)  # an answer that is there already gives nobody else a turn
    return found


async def test_the_first_of_an_order_are_found_on_all_shards(crawl: SharedCrawl) -> None:
    mine = await crawl.join("mine")
    for count, host in enumerate(HOSTS, start=1):
        await push_all(mine, [link(host, f"/{number}") for number in range(count)])
    found = await find(HostSearches(mine.client))
    assert [one["host"] for one in found["hosts"]] == HOSTS[::-1]
    assert [one["queued"] for one in found["hosts"]] == list(range(len(HOSTS), 0, -1))
    assert (found["total"], found["looked_at"], found["matching"]) == (12, 12, 12)


async def test_a_part_of_the_name_is_enough(crawl: SharedCrawl) -> None:
    mine = await crawl.join("mine")
    await push_all(mine, [link(host, "/") for host in HOSTS])
    found = await find(HostSearches(mine.client), "H1", "host")
    assert [one["host"] for one in found["hosts"]] == ["http://h1", "http://h10", "http://h11"]
    assert (await find(HostSearches(mine.client), "[*"))["hosts"] == []


@pytest.mark.parametrize("order", sorted(ORDERS))
async def test_more_than_are_shown_are_counted_in_every_order(
    sharded: SharedCrawl, order: str
) -> None:
    mine = await sharded.join("mine")
    await push_all(mine, [link(f"http://h{number:04}", "/") for number in range(SHOWN * 3)])
    await done(mine, (await mine.lease(20)).leases, pause_ms=60_000)
    found = await find(HostSearches(mine.client), order=order)
    assert (len(found["hosts"]), found["matching"]) == (SHOWN, SHOWN * 3)
    first = found["hosts"][0]
    if order == "host":
        assert first["host"] == "http://h0000"
    if order == "pages":
        assert first["pages"] == 1


async def test_a_crawl_that_is_not_there_has_no_hosts(crawl: SharedCrawl) -> None:
    mine = await crawl.join("mine")
    found = await HostSearches(mine.client).ask(Question("other"))
    assert (found["hosts"], found["total"], found["error"]) == ([], 0, "")
