"""The frontier as workers use it: the same behaviour wherever its shards lie."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import Any

import pytest

from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Renewed
from crawlproj.frontier.refusals import CrawlReplaced, CrawlWiped, WorkerDeclaredDead
from tests.contract.shared_crawl import (
    HOSTS,
    SharedCrawl,
    crawl_all,
    done,
    is_within_redis,
    web,
)
from tests.lua.helpers import CRAWL, MINUTE_MS, link, seed, shown, unfiltered
from tests.servers.frontier import push_all, reclaim


async def test_several_workers_fetch_every_url_exactly_once(crawl: SharedCrawl) -> None:
    workers = [await crawl.join(f"w{number}", per_host=2) for number in range(3)]
    news = await asyncio.gather(*(push_all(worker, web()) for worker in workers))
    assert sum(news) == len(web())
    fetched = await asyncio.gather(*(crawl_all(worker) for worker in workers))
    everything = Counter(url for part in fetched for url in part)
    assert everything == {push.host + shown(push.entry): 1 for push in web()}
    counts = {name: count for name, count in (await workers[0].counts()).items() if count}
    assert counts == {"discovered": 60, "done": 60, "duplicates": 120}
    assert await workers[0].finish() == "finished"


async def test_a_crawl_that_grows_while_it_runs_is_fetched_whole(crawl: SharedCrawl) -> None:
    """Each page links to two more, on any host; children are pushed before their parent ends."""

    def children(url: str) -> list[Any]:
        number = int(url.rpartition("/")[2])
        return [link(HOSTS[n % 12], f"/{n}") for n in (2 * number + 1, 2 * number + 2) if n < 200]

    async def work(frontier: Frontier) -> Counter[str]:
        fetched: Counter[str] = Counter()
        while await frontier.finish() == "running":
            for lease in (await frontier.lease(4)).leases:
                url = lease.host + shown(lease.entry)
                fetched[url] += 1
                await push_all(frontier, children(url))
                await done(frontier, [lease])
        return fetched

    workers = [await crawl.join(f"w{number}") for number in range(3)]
    await push_all(workers[0], [seed(HOSTS[0], "/0")])
    fetched = sum(await asyncio.gather(*map(work, workers)), Counter())
    assert fetched == {f"{HOSTS[n % 12]}/{n}": 1 for n in range(200)}


async def test_what_a_dead_worker_held_is_fetched_by_another(crawl: SharedCrawl) -> None:
    living, silent = await crawl.join("living"), await crawl.join("silent")
    await silent.renew(MINUTE_MS, {})
    await push_all(silent, web(1))
    lost = (await silent.lease(6)).leases
    assert len(lost) >= 6
    crawl.at(2)
    reclaimed = await reclaim(living)
    assert (reclaimed.workers, reclaimed.queued) == (1, len(lost))
    assert len(await crawl_all(living)) == 12
    assert await done(silent, lost) == len(lost)
    with pytest.raises(WorkerDeclaredDead):
        await silent.lease(1)
    assert await silent.renew(MINUTE_MS, {}) == Renewed(False, "running", 0, 0)


async def test_workers_that_left_are_forgotten(crawl: SharedCrawl) -> None:
    worker = await crawl.join("w")
    await push_all(worker, web(1))
    await crawl_all(worker)
    await worker.leave()
    assert [state.workers for state in crawl.states()] == [{}] * crawl.shards


async def test_those_who_come_later_join_the_crawl_with_its_own_limits(crawl: SharedCrawl) -> None:
    first = await crawl.join("first", pages=7, per_host=3)
    second = await crawl.join("second", pages=99, per_host=1, shards=5)
    assert crawl.last is not None and crawl.last.mode == "joined"
    assert second.plan == first.plan
    assert len(second.shards) == crawl.shards
    assert [shard.epoch for shard in second.shards] == [crawl.last.epoch] * crawl.shards


async def test_attaching_looks_without_joining(crawl: SharedCrawl) -> None:
    client = (await crawl.join("w", pages=5)).client
    looker = Frontier(client, CRAWL, "looker")
    meta = await looker.attach()
    assert (meta["state"], looker.plan.pages) == ("running", 5)
    assert await Frontier(client, "other", "looker").attach() == {}


async def test_a_new_crawl_after_a_finished_one_is_empty_everywhere(crawl: SharedCrawl) -> None:
    worker = await crawl.join("w")
    await push_all(worker, web(1))
    await crawl_all(worker)
    await worker.finish()
    again = await crawl.join("again", run="later")
    assert crawl.last is not None and crawl.last.mode == "new"
    assert await again.counts() == {}
    assert await push_all(again, web(1)) == 12
    with pytest.raises(CrawlReplaced):
        await push_all(worker, web(1))


async def test_a_wiped_redis_is_told_and_never_taken_for_the_end(crawl: SharedCrawl) -> None:
    worker = await crawl.join("w")
    await push_all(worker, web(1))
    for number in range(crawl.shards):
        saved = crawl.redis.dump(keys.meta(CRAWL, number))
        crawl.redis.delete(keys.meta(CRAWL, number))
        with pytest.raises(CrawlWiped):
            await worker.lease(5)
        with pytest.raises(CrawlWiped):
            await worker.renew(MINUTE_MS, {})
        crawl.redis.restore(keys.meta(CRAWL, number), 0, saved)
    assert len(await crawl_all(worker)) == 12 - len(await worker.held_leases())


async def test_a_flushed_script_cache_is_invisible(crawl: SharedCrawl) -> None:
    worker = await crawl.join("w")
    crawl.flush_scripts()
    await push_all(worker, web(1))
    crawl.flush_scripts()
    leases = (await worker.lease(12)).leases
    crawl.flush_scripts()
    assert await done(worker, leases) == 0
    for operation in (partial(reclaim, worker), worker.leave, worker.finish):
        crawl.flush_scripts()
        await operation()


async def test_an_operation_that_is_repeated_after_a_lost_reply_is_harmless(
    crawl: SharedCrawl,
) -> None:
    worker = await crawl.join("w")
    batch = [*web(1), unfiltered(HOSTS[0], "/again")]
    for _ in range(2):
        for number, items in worker.by_shard(batch).items():
            worker.shards[number].pushes = 0
            await worker.shards[number].push("w", items)
    assert (await worker.counts())["discovered"] == 13
    leases = [*(await worker.lease(6)).leases, *(await worker.lease(6)).leases]
    assert await done(worker, leases, pause_ms=MINUTE_MS) == 0
    assert await done(worker, leases, pause_ms=MINUTE_MS) == len(leases)
    for _ in range(2):
        await worker.renew(MINUTE_MS, {})
        await worker.widen_scope(["a"])
        await reclaim(worker)
        await worker.finish()
    crawl.at(2)
    assert len(await crawl_all(worker)) == 13 - len(leases)
    assert [await worker.finish(), await worker.finish()] == ["finished"] * 2
    await worker.leave()
    await worker.leave()


async def test_a_worker_adopts_what_a_lost_reply_has_leased_to_it(crawl: SharedCrawl) -> None:
    worker = await crawl.join("w")
    await push_all(worker, web(1))
    lost = (await worker.lease(6)).leases
    assert sorted(await worker.held_leases()) == sorted(lost)
    assert await done(worker, await worker.held_leases()) == 0
    assert await worker.held_leases() == []


async def test_a_new_shard_of_the_same_name_learns_what_redis_holds_after_a_failover(
    crawl: SharedCrawl,
) -> None:
    """The layers that a server had opened and lost again are forgotten by its workers too."""
    worker = await crawl.join("w", seen_capacity=3 * crawl.shards)
    await push_all(worker, web(1))
    await push_all(worker, web(2))
    for number in range(crawl.shards):
        crawl.redis.hset(keys.layers(CRAWL, number), "open", 1)
    assert await push_all(worker, web(3)) > 0
    for shard in worker.shards:
        assert await is_within_redis(shard)
