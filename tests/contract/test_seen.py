"""Scope, ledger and seen filter over all shards, and the workers' copies of the filter."""

from __future__ import annotations

import asyncio
from collections import Counter

from crawlproj.frontier import keys
from crawlproj.frontier.bloom import Geometry
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.shard import Shard
from crawlproj.operate import status
from tests.contract.shared_crawl import (
    HOSTS,
    SharedCrawl,
    bits_of_redis,
    bits_of_replica,
    is_audited,
    is_within_redis,
    web,
)
from tests.lua.helpers import CRAWL, filtered, seed, unfiltered
from tests.servers.frontier import push_all


async def test_scope_is_read_from_where_a_worker_has_come_to(crawl: SharedCrawl) -> None:
    worker, other = await crawl.join("w"), await crawl.join("other")
    for names in (["c", "a"], ["a", "b", "c"], ["d"]):
        await worker.widen_scope(names)
    assert await other.scope_since(0) == ["a", "c", "b", "d"]
    assert await other.scope_since(2) == ["b", "d"]
    await worker.widen_scope(f"n{number:04}" for number in range(2500))
    assert len(await other.scope_since(4)) == 2500
    assert await other.in_scope(["a", "n0007", "e"]) == {"a", "n0007"}


async def test_the_scope_of_an_older_crawl_is_taken_over_by_who_joins_it(
    crawl: SharedCrawl,
) -> None:
    looker = await crawl.join("w")
    old = {f"n{number}" for number in range(2500)}
    for shard in looker.shards:
        await looker.client.sadd(keys.old_scope(CRAWL, shard.number), *old)
    assert await looker.in_scope(["n7", "e"]) == {"n7"}
    worker = await crawl.join("other")
    assert set(await worker.scope_since(0)) == old
    assert [state.scope for state in crawl.states()] == [old] * crawl.shards
    assert await worker.in_scope(["n7", "e"]) == {"n7"}


async def test_scope_is_known_on_every_shard_before_the_first_url_is(crawl: SharedCrawl) -> None:
    worker, other = await crawl.join("w"), await crawl.join("other")
    await worker.widen_scope(["a.example", "b.example"])
    assert (await other.lease(1)).scope_size == 2
    assert await other.scope_since(0) == ["a.example", "b.example"]
    assert [state.scope for state in crawl.states()] == [{"a.example", "b.example"}] * crawl.shards


async def test_what_was_seen_is_forgotten_at_all_shards_before_any_is_asked_anew(
    sharded: SharedCrawl,
) -> None:
    """A link that is met meanwhile may be lost there, and is to be pushed again."""
    worker, pages = await sharded.join("w"), web(1)
    await push_all(worker, pages)
    learning = asyncio.create_task(worker.warm())
    await asyncio.sleep(0)
    assert not any(worker.seen(page.host, page.key) for page in pages)
    await learning
    assert all(worker.seen(page.host, page.key) for page in pages)


async def test_the_ledger_of_all_shards_adds_up(crawl: SharedCrawl) -> None:
    worker = await crawl.join("w")
    await push_all(worker, [*web(2), *web(1), filtered("depth", "http://x/"), unfiltered(*"ab")])
    counts = await worker.counts()
    assert (counts["discovered"], counts["queued"]) == (26, 25)
    assert (counts["duplicates"], counts["filtered:depth"]) == (12, 1)


async def test_a_fresh_worker_warms_its_replica_with_exactly_thebits_of_redis(
    crawl: SharedCrawl,
) -> None:
    worker = await crawl.join("w", seen_capacity=30, seen_error_rate=0.01)
    await push_all(worker, web(10))
    await push_all(worker, [seed(HOSTS[0], "/0"), *web(11)])
    fresh = await crawl.join("fresh")
    assert not any(fresh.seen(push.host, push.key) for push in web(11))
    await fresh.warm()
    for shard in fresh.shards:
        layers = bits_of_replica(shard)
        assert len(layers) > 1
        assert layers == list((await bits_of_redis(shard)).values())[: len(layers)]
    assert all(fresh.seen(push.host, push.key) for push in web(11) if not is_audited(fresh, push))
    assert await push_all(fresh, web(11)) == 0


async def test_a_replica_never_has_a_bit_that_redis_has_not(crawl: SharedCrawl) -> None:
    workers = [await crawl.join(f"w{n}", seen_capacity=12, seen_error_rate=0.01) for n in range(2)]
    for number in range(12):
        for worker in workers:
            await push_all(worker, [*web(3), *web(number + 1)[:: number + 1]])
    for worker in workers:
        for shard in worker.shards:
            assert len(shard.replica.layers) > 1
            assert await is_within_redis(shard)


async def test_a_repeated_push_that_had_opened_a_layer_adds_no_bit_of_its_own(
    crawl: SharedCrawl,
) -> None:
    worker = await crawl.join("w", seen_capacity=crawl.shards, seen_error_rate=0.01)
    await push_all(worker, web(1))
    for number, batch in worker.by_shard(web(1)).items():
        shard = worker.shards[number]
        again = Shard(shard.client, CRAWL, number, shard.geometry, epoch=shard.epoch, pushes=0)
        assert await again.push("w", batch) == [False] * len(batch)
        assert len(again.replica.layers) == 2
        assert await is_within_redis(again)


async def test_audited_keys_are_never_answered_without_redis(crawl: SharedCrawl) -> None:
    worker = await crawl.join("w")
    auditor = Frontier(worker.client, CRAWL, "auditor", audit_one_in=1)
    await auditor.attach()
    await push_all(auditor, web(1))
    assert not any(auditor.seen(push.host, push.key) for push in web(1))
    assert sum(len(state.audit) for state in crawl.states()) == 12


async def test_the_expected_error_is_told_with_the_items_and_the_room_of_all_layers(
    crawl: SharedCrawl,
) -> None:
    worker = await crawl.join("w", seen_capacity=3 * crawl.shards, seen_error_rate=0.01)
    for push in web(2):
        await push_all(worker, [push])
    seen = (await status.read(worker)).seen
    assert seen.items == 24
    assert seen.capacity > 3 * crawl.shards
    assert 0 < seen.expected_fp < 0.1


async def test_hosts_are_spread_over_all_shards_and_stay_where_they_are(
    sharded: SharedCrawl,
) -> None:
    one, two = await sharded.join("one"), await sharded.join("two")
    spread = Counter(one.shard_of(f"http://h{n}.example").number for n in range(3000))
    assert min(spread.values()) > 800
    assert all(one.shard_of(h).number == two.shard_of(h).number for h in HOSTS)


async def test_a_shards_filter_is_sized_for_its_share_of_the_urls(sharded: SharedCrawl) -> None:
    worker = await sharded.join("w", seen_capacity=3000)
    assert {shard.geometry for shard in worker.shards} == {Geometry(1000, 0.001)}
