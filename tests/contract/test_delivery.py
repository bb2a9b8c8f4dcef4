"""What a worker waits for before it settles a page."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Settlement
from crawlproj.frontier.outcomes import Attempt
from crawlproj.frontier.plan import Plan
from crawlproj.items import PageItem
from crawlproj.output.store import writer
from crawlproj.output.store.opening import open_database
from crawlproj.output.store.writer import PageWriter
from crawlproj.running import Tally
from crawlproj.server.connection import connect
from crawlproj.worker.exchange import Worker
from crawlproj.worker.hooks import Hooks
from tests.contract.mortal import Judged, judged
from tests.lua.helpers import CRAWL, A, link
from tests.servers.frontier import push_all
from tests.servers.redis import PATIENCE, RedisServer


class StoreByHand:
    """Keeps what ended well, and commits when it is told to."""

    def __init__(self) -> None:
        self.added = self.committed = 0
        self.is_full = False
        self.on_commit: Callable[[], None] = self._untold
        self.on_error: Callable[[Exception], None] = lambda error: None

    def expect(self, ended: Any) -> None:
        """Whether it is full is said by hand."""

    def take(self, ended: Any, settlement: Settlement) -> int:
        if settlement.verdict != "done":
            return 0
        self.added += 1
        return self.added

    def commit_now(self) -> None:
        self.committed = self.added
        self.on_commit()

    def _untold(self) -> None:
        """Nobody waits."""


class Stored(Judged):
    def __init__(self) -> None:
        super().__init__()
        self.store = StoreByHand()


@pytest.fixture
async def frontier(redis_server: RedisServer) -> AsyncIterator[Frontier]:
    """Of a crawl that has begun, as its worker `w` sees it."""
    client = await connect(redis_server.url)
    opened = Frontier(client, CRAWL, "w")
    await opened.open(Plan(seen_capacity=1000), "run")
    yield opened
    await client.aclose()


async def test_a_page_waits_for_the_store_while_its_host_and_others_go_on(
    frontier: Frontier,
) -> None:
    async with asyncio.timeout(60 * PATIENCE):
        await frontier.renew(1_000_000, {})
        await push_all(frontier, [link(A, "/1"), link(A, "/2"), link(A, "/3")])
        hooks = Stored()
        worker = Worker(frontier, hooks, connections=4, lease_timeout_s=60)
        (first,) = (await frontier.lease(2)).leases
        worker.begun = 1
        worker.end(judged(Settlement(first.token, "done")))
        await worker.flush()
        (second,) = (await frontier.lease(1)).leases  # its host is free
        worker.begun += 1
        worker.end(judged(Settlement(second.token, "filtered", reason="x")))
        await worker.flush()
        counts = await frontier.counts()
        assert "done" not in counts and counts["filtered:x"] == 1
        assert worker.begun == 1
        hooks.store.commit_now()
        await worker.flush()
        assert ((await frontier.counts())["done"], worker.begun) == (1, 0)


async def test_a_worker_counts_what_was_still_its_own_to_settle(frontier: Frontier) -> None:
    async with asyncio.timeout(60 * PATIENCE):
        await frontier.renew(1_000_000, {})
        await push_all(frontier, [link(A, "/1")])
        worker = Worker(frontier, Judged(), connections=4, lease_timeout_s=60)
        (lease,) = (await frontier.lease(2)).leases
        worker.begun = 2
        for token, size in ((lease.token, 10), (lease.token + 1, 20)):
            worker.end(judged(Settlement(token, "done", size=size)))
        await worker.flush()
        assert (worker.tally, worker.begun) == (Tally(pages=1, bytes=10), 0)


async def test_a_worker_commits_when_it_has_nothing_else_to_do_and_begins_nothing_while_full(
    frontier: Frontier,
) -> None:
    async with asyncio.timeout(60 * PATIENCE):
        hooks = Stored()
        worker = Worker(frontier, hooks, connections=4, lease_timeout_s=60)
        await worker.start()
        await push_all(frontier, [link(A, "/1"), link(A, "/2")])
        while not worker.leased_ahead:
            await asyncio.sleep(0.01)
        hooks.store.is_full = True
        assert worker.take() is None
        hooks.store.is_full = False
        for _ in range(2):
            while (lease := worker.take()) is None:
                await asyncio.sleep(0.01)
            worker.end(judged(Settlement(lease.token, "done")))
        while (await frontier.counts()).get("done") != 2:
            await asyncio.sleep(0.01)
        assert hooks.store.committed == 2
        await worker.close()


async def test_a_worker_that_leaves_has_its_pages_committed_and_settled(
    frontier: Frontier,
) -> None:
    async with asyncio.timeout(60 * PATIENCE):
        worker = Worker(frontier, Stored(), connections=4, lease_timeout_s=60)
        await frontier.renew(1_000_000, {})
        await push_all(frontier, [link(A, "/1")])
        (lease,) = (await frontier.lease(1)).leases
        worker.begun = 1
        worker.end(judged(Settlement(lease.token, "done")))
        await worker.close()
        counts = await frontier.counts()
        assert (counts["done"], counts.get("leased", 0)) == (1, 0)


async def test_a_page_whose_rows_a_slow_disk_does_not_have_yet_waits_and_its_host_goes_on(
    frontier: Frontier,
) -> None:
    disk_is_done = threading.Event()

    class OnASlowDisk(Judged):
        def flush_rows(self) -> None:
            assert disk_is_done.wait(60 * PATIENCE)

    try:
        async with asyncio.timeout(60 * PATIENCE):
            await frontier.renew(1_000_000, {})
            await push_all(frontier, [link(A, "/1"), link(A, "/2")])
            worker = Worker(frontier, OnASlowDisk(), connections=4, lease_timeout_s=60)
            (first,) = (await frontier.lease(2)).leases
            worker.begun = 1
            worker.end(judged(Settlement(first.token, "done")))
            handing_in = asyncio.create_task(worker.flush())
            while not (await frontier.lease(1)).leases:
                await asyncio.sleep(0.01)
            assert "done" not in await frontier.counts()
            disk_is_done.set()
            await handing_in
            assert (await frontier.counts())["done"] == 1
    finally:
        disk_is_done.set()


async def test_bodies_of_pages_that_end_while_a_disk_is_stuck_fill_the_store(
    frontier: Frontier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MOST_WAITING_BYTES", 1000)
    monkeypatch.setattr(writer, "BATCH_S", 1e6)
    disk_is_stuck, disk_is_done = threading.Event(), threading.Event()

    class Kept(Hooks):
        store = PageWriter(
            open_database(f"sqlite:///{tmp_path}/pages.db", tmp_path / "site"),
            CRAWL,
            lambda: "epoch",
        )

        async def judge(self, ended: Attempt) -> tuple[int, Settlement]:
            return 0, Settlement(ended.lease.token, "done")

        def flush_rows(self) -> None:
            disk_is_stuck.set()
            assert disk_is_done.wait(60 * PATIENCE)

    hooks = Kept()
    try:
        async with asyncio.timeout(60 * PATIENCE):
            await frontier.renew(1_000_000, {})
            await push_all(frontier, [link(A, "/1"), link(A, "/2")])
            worker = Worker(frontier, hooks, connections=4, lease_timeout_s=60)
            hooks.store.start()
            handing_in = None
            for name in ("1", "2"):
                while not (leases := (await frontier.lease(1)).leases):
                    await asyncio.sleep(0.01)
                worker.begun += 1
                row = PageItem(url=A, status=200, fetched_at="2026-01-31", worker="w")
                worker.end(Attempt(leases[0], stored=(row, bytes(600))))
                assert hooks.store.is_full == (name == "2")
                handing_in = handing_in or asyncio.create_task(worker.flush())
                while not disk_is_stuck.is_set():
                    await asyncio.sleep(0.01)
            disk_is_done.set()
            assert handing_in is not None
            await handing_in
            while (await frontier.counts()).get("done") != 2:
                hooks.store.commit_now()
                await worker.flush()
            assert not hooks.store.is_full
    finally:
        disk_is_done.set()
        hooks.store.close()
