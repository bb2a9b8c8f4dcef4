"""A crawl's past, as workers' heartbeats write it and as everybody reads it."""

from __future__ import annotations

from itertools import product

import pytest

from crawlproj.frontier import history, keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.history import Moment, Span
from crawlproj.frontier.messages import Settlement
from crawlproj.operate.purge import purge
from tests.contract.shared_crawl import SharedCrawl, done, web
from tests.lua.helpers import CRAWL, MINUTE_MS
from tests.servers.frontier import push_all

HOUR = 60


async def beat(crawl: SharedCrawl, worker: Frontier, minute: float) -> None:
    crawl.at(minute)
    await worker.renew(MINUTE_MS, {})


async def past(frontier: Frontier, span: Span = Span.HOUR) -> list[Moment]:
    look = Frontier(frontier.client, CRAWL, "look")
    await look.attach()
    return await history.read(look, span)


async def test_heartbeats_write_how_the_whole_crawl_stood(crawl: SharedCrawl) -> None:
    mine = await crawl.join("mine")
    await push_all(mine, web())
    await beat(crawl, mine, 1)
    leases = (await mine.lease(9)).leases
    await done(mine, leases[1:], size=100)
    lost = leases[0]
    await mine.settle([(lost.shard, Settlement(lost.token, "dead", reason="http_500"))])
    await beat(crawl, mine, 2)
    first, before, after = await past(mine)
    assert (first.discovered, before.discovered, before.queued) == (0, len(web()), len(web()))
    count = len(leases) - 1
    assert (after.done, after.dead, after.bytes, after.leased) == (count, 1, 100 * count, 0)
    assert (after.hosts, after.workers, after.filtered) == (12, 1, 0)
    assert after.memory > 0 and after.at_s - before.at_s in (60, 61)
    [rates] = history.rates([before, after])
    assert rates.pages == pytest.approx(count / 60, rel=0.05)


async def test_two_workers_write_one_moment_a_step(crawl: SharedCrawl) -> None:
    one, other = await crawl.join("one"), await crawl.join("other")
    for second in range(0, 120, 5):
        await beat(crawl, one, 1 + second / 60)
        await beat(crawl, other, 1 + (second + 1) / 60)
    moments = await past(one)
    passed_s = moments[-1].at_s - moments[0].at_s
    for number, span in product(range(crawl.shards), (Span.HOUR, Span.DAY)):
        written = crawl.redis.llen(f"{keys.history_prefix(CRAWL, number)}{span.step_s}")
        assert 110 // span.step_s <= written <= passed_s // span.step_s + 2


async def test_the_past_is_bounded_and_the_coarse_one_reaches_further(crawl: SharedCrawl) -> None:
    mine = await crawl.join("mine")
    names = [f"{keys.history_prefix(CRAWL, n)}{Span.HOUR.step_s}" for n in range(crawl.shards)]
    for name in names:
        crawl.redis.rpush(name, *(crawl.redis.lindex(name, 0) for _ in range(Span.HOUR.most)))
    for minute in (10, 20):
        await beat(crawl, mine, minute)
    assert {crawl.redis.llen(name) for name in names} == {Span.HOUR.most}
    assert len(await past(mine)) == len(await past(mine, Span.DAY)) == 3


async def test_a_crawl_that_ends_writes_its_last_moment_and_waits_without_more(
    crawl: SharedCrawl,
) -> None:
    mine = await crawl.join("mine")
    await push_all(mine, web()[:1])
    await done(mine, (await mine.lease(1)).leases)
    assert await mine.finish() == "finished"
    ended = await past(mine)
    assert (ended[-1].done, ended[-1].queued) == (1, 0)
    await beat(crawl, mine, HOUR)
    assert await past(mine) == ended


async def test_the_past_goes_with_its_crawl(crawl: SharedCrawl) -> None:
    mine = await crawl.join("mine")
    await push_all(mine, web()[:1])
    await beat(crawl, mine, 3 * HOUR)
    await done(mine, (await mine.lease(1)).leases)
    await mine.finish()
    again = await crawl.join("again", run="another")
    assert len(await past(again)) == 1
    await purge(again)
    assert list(crawl.redis.scan_iter(count=1000)) == []
    await crawl.join("last", run="yet another")


async def test_what_others_put_there_is_no_moment(crawl: SharedCrawl) -> None:
    mine = await crawl.join("mine")
    for number in range(crawl.shards):
        key = keys.history_prefix(CRAWL, number) + str(Span.HOUR.step_s)
        crawl.redis.lpush(key, b"", b"\xc1", b"text", b"\x01\xa1x")
    assert len(await past(mine)) == 1
