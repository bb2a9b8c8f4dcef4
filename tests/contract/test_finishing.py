"""The end of a crawl, and of its page budget, which no shard can decide alone."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.levels import MOVED, seed_level
from crawlproj.frontier.messages import Lease, Push, Settlement, State
from crawlproj.frontier.refusals import CrawlFinished
from crawlproj.frontier.shard import Shard
from crawlproj.operate import dead_letters
from crawlproj.worker.finish import StateHandler
from tests.contract.shared_crawl import (
    SharedCrawl,
    crawl_all,
    done,
    hosts_of,
    web,
)
from tests.lua.helpers import MINUTE_MS, link, seed, shown, unfiltered
from tests.servers.frontier import push_all


async def test_a_crawl_is_not_finished_while_anything_is_left_on_any_shard(
    crawl: SharedCrawl,
) -> None:
    worker = await crawl.join("w")
    await push_all(worker, web(1))
    while leases := (await worker.lease(1)).leases:
        assert await worker.finish() == "running"
        assert [state.meta["state"] for state in crawl.states()] == ["running"] * crawl.shards
        await done(worker, leases)
    assert await worker.finish() == "finished"
    assert (await worker.lease(1)).state == "finished"


async def test_a_child_pushed_to_another_shard_just_before_its_parent_is_settled_keeps_a_crawl_open(
    sharded: SharedCrawl,
) -> None:
    """Whatever two steps of finish() the push and the settling come between."""
    for moment in range(12):
        worker = await sharded.join("w", run=f"run{moment}")
        other = await sharded.join("other", run=f"run{moment}")
        for parent_shard, child_shard in ((0, 2), (2, 0), (1, 0)):
            parent = link(hosts_of(worker, parent_shard)[0], f"/{parent_shard}{child_shard}")
            child = link(hosts_of(worker, child_shard)[0], f"/{parent_shard}{child_shard}c")
            await push_all(other, [parent])
            leases = (await other.lease(1)).leases

            move = partial(_push_and_settle, other, child, leases)
            assert await _finish_with(worker, moment, move) == "running"
            assert len(await crawl_all(worker)) == 1
        assert await worker.finish() == "finished"


async def _push_and_settle(frontier: Frontier, child: Push, parents: list[Lease]) -> None:
    await push_all(frontier, [child])
    await done(frontier, parents)


async def _push_or_note(frontier: Frontier, push: Push, refused: list[CrawlFinished]) -> None:
    try:
        await push_all(frontier, [push])
    except CrawlFinished as error:
        refused.append(error)


async def _finish_with(frontier: Frontier, moment: int, interfere: Any) -> str:
    """finish(), with something that happens before its call number `moment` to Redis."""
    real, calls = frontier.client, 0

    class Between:
        def __getattr__(self, name: str) -> Any:
            async def call(*args: Any, **kwargs: Any) -> Any:
                nonlocal calls
                if calls == moment:
                    await interfere()
                calls += 1
                return await getattr(real, name)(*args, **kwargs)

            return call

    for shard in frontier.shards:
        shard.client = Between()
    try:
        state = await frontier.finish()
    finally:
        for shard in frontier.shards:
            shard.client = real
    if calls <= moment:
        await interfere()
    return state


async def test_a_seed_that_comes_while_the_crawl_is_being_finished_is_taken_in_or_refused(
    sharded: SharedCrawl,
) -> None:
    finished = 0
    for moment in range(12):
        worker = await sharded.join("w", run=f"run{moment}")
        other = await sharded.join("other", run=f"run{moment}")
        refused: list[CrawlFinished] = []
        add = partial(_push_or_note, other, seed(hosts_of(other, 0)[0], "/"), refused)
        state = await _finish_with(worker, moment, add)
        states = {one.meta["state"] for one in sharded.states()}
        assert states == {state}
        assert (state == "finished") == bool(refused)
        finished += bool(refused)
        await crawl_all(worker)
        await worker.finish()
    assert 0 < finished < 12


async def test_a_worker_that_died_while_it_finished_the_crawl_leaves_it_open(
    sharded: SharedCrawl,
) -> None:
    worker = await sharded.join("w")
    await worker.shards[2].finish()
    assert (await worker.lease(1)).state == "running"
    assert await worker.finish() == "finished"
    await sharded.join("w", run="next")
    worker = await sharded.join("w", run="next")
    await worker.shards[2].finish()
    later = await sharded.join("later", run="another")
    assert sharded.last is not None and sharded.last.mode == "joined"
    assert await push_all(later, web(1)) == 12
    assert len(await crawl_all(later)) == 12


async def test_a_worker_that_is_slow_to_finish_a_crawl_does_not_end_it_over_what_has_come_meanwhile(
    sharded: SharedCrawl,
) -> None:
    """A seed comes to the first shard while the others have been ended, and its page, which is
    done before the slow worker comes to that shard, leads to one of those."""
    worker, other = await sharded.join("w"), await sharded.join("other")
    hosts = [hosts_of(worker, number)[0] for number in range(3)]

    async def come_meanwhile() -> None:
        await push_all(other, [seed(hosts[0], "/")])
        leases = (await other.lease(1)).leases
        await other.reopen()
        await push_all(other, [link(hosts[2], "/child")])
        await done(other, leases)

    calls_before_the_first_shard = 1 + 2 * 3 + 2
    state = await _finish_with(worker, calls_before_the_first_shard, come_meanwhile)
    assert (state, await worker.state()) == ("running", "running")
    assert await crawl_all(worker) == [f"{hosts[2]}/child"]
    assert await worker.finish() == "finished"


async def test_a_dead_letter_of_a_shard_that_has_ended_before_the_others_is_tried_again_at_once(
    sharded: SharedCrawl,
) -> None:
    worker = await sharded.join("w")
    await push_all(worker, [link(hosts_of(worker, 2)[0], "/")])
    (lease,) = (await worker.lease(1)).leases
    await worker.settle([(lease.shard, Settlement(lease.token, "dead", reason="dns"))])
    await worker.shards[2].finish()
    letters = [letter async for letter in dead_letters.find(worker, dead_letters.Selection())]
    assert await dead_letters.retry(worker, letters) == 1
    assert len(await crawl_all(worker)) == 1
    assert await worker.finish() == "finished"


async def test_a_crawl_stops_when_no_lease_is_out_on_any_shard(crawl: SharedCrawl) -> None:
    worker = await crawl.join("w")
    await push_all(worker, web(2))
    leases = (await worker.lease(12)).leases
    assert await worker.set_state("stopping", ["running"]) == "stopping"
    assert (await worker.lease(1)).leases == []
    assert await worker.finish() == "stopping"
    await done(worker, leases)
    assert await worker.finish() == "stopped"
    assert [state.meta["state"] for state in crawl.states()] == ["stopped"] * crawl.shards
    again = await crawl.join("again", run="later")
    assert crawl.last is not None and crawl.last.mode == "resumed"
    assert len(await crawl_all(again)) == 24 - len(leases)


async def test_pausing_and_resuming_reaches_every_shard(crawl: SharedCrawl) -> None:
    worker = await crawl.join("w")
    await push_all(worker, web(1))
    assert await worker.set_state("paused", ["running"]) == "paused"
    batch = await worker.lease(9)
    assert (batch.state, batch.leases) == ("paused", [])
    assert await worker.set_state("running", ["paused"]) == "running"
    assert len(await crawl_all(worker)) == 12


@pytest.mark.parametrize(("before", "wanted"), [("running", "paused"), ("paused", "running")])
async def test_a_crawl_is_said_to_run_only_if_no_shard_is_paused(
    sharded: SharedCrawl, monkeypatch: pytest.MonkeyPatch, before: State, wanted: State
) -> None:
    """Also after a command that died half-way."""
    set_state = Shard.set_state

    async def dies(shard: Shard, *args: Any) -> State:
        if shard.number == 1:
            raise ConnectionError
        return await set_state(shard, *args)

    worker = await sharded.join("w")
    await worker.set_state(before, ["running"])
    monkeypatch.setattr(Shard, "set_state", dies)
    with pytest.raises(ConnectionError):
        await worker.set_state(wanted, [before])
    assert (await worker.lease(1)).state == await worker.state() == "paused"


async def _crawl_within_budget(frontier: Frontier) -> int:
    fetched = 0
    for _ in range(50):
        fetched += len(await crawl_all(frontier, 1))
        await frontier.balance_pages()
        if (await frontier.counts()).get("done", 0) >= frontier.plan.pages:
            await frontier.filter_queued("page_limit")
            return fetched
    raise AssertionError("the budget was not used up")


@pytest.mark.parametrize("pages", [1, 2, 10, 23])
async def test_the_page_budget_is_exact_over_all_shards(crawl: SharedCrawl, pages: int) -> None:
    worker = await crawl.join("w", pages=pages)
    await push_all(worker, web(30, hosts_of(worker, crawl.shards - 1)[:2]))
    assert await _crawl_within_budget(worker) == pages
    assert (await worker.counts())["filtered:page_limit"] == 60 - pages
    assert await worker.finish() == "finished"


async def test_seeds_of_one_shard_have_the_pages_that_links_of_others_would(
    sharded: SharedCrawl,
) -> None:
    worker = await sharded.join("w", pages=9)
    seeds = [
        seed(host, f"/seed{number}", seed_level(0))
        for host in hosts_of(worker, 2)[:2]
        for number in range(4)
    ]
    elsewhere = [hosts_of(worker, 0)[0], hosts_of(worker, 1)[0]]
    await push_all(worker, [*web(30, elsewhere), *seeds])
    await worker.keep_pages_for_seeds()
    fetched = await crawl_all(worker)
    assert set(fetched) >= {one.host + shown(one.entry) for one in seeds}
    assert len(fetched) == 9


async def test_pages_that_were_moved_to_one_shard_twice_are_not_for_its_links(
    sharded: SharedCrawl,
) -> None:
    first, second = await sharded.join("w1", pages=9), await sharded.join("w2", pages=9)
    here, beside, *_ = hosts_of(first, 1)
    there = hosts_of(first, 2)[0]
    seeds = [seed(here, f"/{number}", seed_level(0)) for number in range(4)]
    seeds += [seed(there, f"/{number}", seed_level(0)) for number in range(5)]
    await push_all(first, [*seeds, *web(30, [beside])])
    has, lacks, _ = first.shards
    for stale in (1, 2):  # each of two workers gives what the seeds there lack, or more
        await has.give_pages(lacks, stale)
    held = (await second.lease(9)).leases
    await done(second, held)
    fetched = [lease.host + shown(lease.entry) for lease in held] + await crawl_all(second)
    assert sorted(fetched) == sorted(one.host + shown(one.entry) for one in seeds)


async def test_a_seed_is_fetched_whose_robots_txt_has_moved_to_a_shard_without_pages(
    sharded: SharedCrawl,
) -> None:
    worker = await sharded.join("w", pages=3)
    here, beside, *_ = hosts_of(worker, 0)
    there = hosts_of(worker, 1)[0]
    await push_all(
        worker, [link(there, "/1"), link(there, "/2"), link(hosts_of(worker, 2)[0], "/")]
    )
    await crawl_all(worker)
    await push_all(worker, [seed(here, "/seed", seed_level(0)), link(beside, "/")])
    [(shard, waits)] = [(one.shard, one.token) for one in (await worker.lease(9)).leases]
    a_while = Settlement(waits, "wait", delay_ms=MINUTE_MS, hold_ms=MINUTE_MS)
    await worker.settle([(shard, a_while)])
    await push_all(worker, [unfiltered(there, "/robots.txt", MOVED)])
    await worker.balance_pages()
    [moved] = (await worker.lease(9)).leases
    assert (moved.host, moved.level) == (there, MOVED)
    await worker.settle([(moved.shard, Settlement(moved.token, "filtered", reason="robots"))])
    sharded.at(5)
    assert await crawl_all(worker) == [f"{here}/seed"]


@pytest.mark.parametrize("steps", [1, 2])
async def test_a_process_that_dies_while_it_moves_budget_neither_loses_nor_doubles_a_page(
    sharded: SharedCrawl, steps: int
) -> None:
    worker = await sharded.join("w", pages=9)
    await push_all(worker, web(30, hosts_of(worker, 2)[:1]))
    assert len(await crawl_all(worker, 1)) == 3
    giver, taker = worker.shards[0], worker.shards[2]
    number, to, pages = await giver.call("offer_pages", [taker.number, 0])
    assert (to, pages) == (2, 3)
    if steps == 2:
        await taker.call("take_pages", [giver.number, number, pages])
    survivor = await sharded.join("survivor")
    assert await _crawl_within_budget(survivor) == 6
    assert sum(state.meta["pages"] for state in sharded.states()) == 9


async def test_workers_that_move_budget_at_the_same_time_move_it_once(sharded: SharedCrawl) -> None:
    workers = [await sharded.join(f"w{number}", pages=30) for number in range(3)]
    await push_all(workers[0], web(60, hosts_of(workers[0], 1)[:1]))
    for _ in range(4):
        await crawl_all(workers[0], 1)
        await asyncio.gather(*(worker.balance_pages() for worker in workers))
    await crawl_all(workers[0], 1)
    assert (await workers[0].counts())["done"] == 30
    assert sum(state.meta["pages"] for state in sharded.states()) == 30


async def test_who_hears_late_of_the_end_stays_if_the_crawl_goes_on(crawl: SharedCrawl) -> None:
    """A seed of its own has opened it again, or still waits to be pushed."""
    frontier = await crawl.join("w")
    await push_all(frontier, web(1))
    await crawl_all(frontier)
    assert await frontier.finish() == "finished"
    closed: list[str] = []
    idle = SimpleNamespace(reason="", may_end=lambda discovered: True)
    engine = SimpleNamespace(close=closed.append)
    process: Any = SimpleNamespace(
        engine=engine, frontier=frontier, has_more=lambda: False, idle=idle
    )
    worker: Any = SimpleNamespace(backlog=1)
    handler = StateHandler(process, worker, crawl_end=SimpleNamespace())  # type: ignore[arg-type]
    await handler.obey("finished")
    worker.backlog = 0
    await frontier.reopen()
    await handler.obey("finished")
    assert closed == []
    assert await frontier.finish() == "finished"
    await handler.obey("finished")
    assert closed == ["finished"]
