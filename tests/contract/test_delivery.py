"""What a worker waits for before it settles a page."""

from __future__ import annotations

import asyncio
import threading

from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.limits import Limits
from crawlproj.frontier.messages import Settlement
from crawlproj.server.connection import connect
from crawlproj.worker.exchange import Worker
from tests.contract.mortal import Judged
from tests.lua.helpers import CRAWL, A, link
from tests.servers.redis import PATIENCE, RedisServer


def test_a_page_whose_rows_a_slow_disk_does_not_have_yet_waits_and_its_host_goes_on(
    redis_server: RedisServer,
) -> None:
    disk_is_done = threading.Event()

    class OnASlowDisk(Judged):
        def flush_rows(self) -> None:
            assert disk_is_done.wait(60 * PATIENCE)

    async def hand_in_slowly() -> None:
        client = await connect(redis_server.url)
        frontier = Frontier(client, CRAWL, "w")
        await frontier.open(Limits(seen_capacity=1000), {}, "run")
        await frontier.renew(1_000_000, {})
        await frontier.push([link(A, "/1"), link(A, "/2")])
        worker = Worker(frontier, OnASlowDisk(), prefetch=4, lease_timeout_s=60)
        (first,) = (await frontier.lease(2)).leases
        worker.held = 1
        worker.end(Settlement(first.token, "done"))
        handing_in = asyncio.create_task(worker.flush())
        while not (await frontier.lease(1)).leases:
            await asyncio.sleep(0.01)
        assert "done" not in await frontier.counts()
        disk_is_done.set()
        await handing_in
        assert (await frontier.counts())["done"] == 1
        await client.aclose()

    try:
        asyncio.run(asyncio.wait_for(hand_in_slowly(), 60 * PATIENCE))
    finally:
        disk_is_done.set()
