"""Groups and overrides as workers see them: on one shard, on three, on a Redis Cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.holds import ASK_EVERY_S
from crawlproj.frontier.messages import Settlement
from crawlproj.frontier.pacing import Overrides
from crawlproj.frontier.plan import DOMAIN
from tests.contract.shared_crawl import SharedCrawl, crawl_all, done, web
from tests.lua.helpers import link
from tests.servers.frontier import push_all

HOSTS = [f"http://h{number}.d{number % 3}.example" for number in range(12)]


async def test_a_domain_has_one_request_out_whoever_asks(crawl: SharedCrawl) -> None:
    workers = [await crawl.join(name, group=DOMAIN) for name in ("w1", "w2")]
    await push_all(workers[0], web(2, HOSTS))
    fetched = []
    for _ in range(8):
        taken = [(await worker.lease(10)).leases for worker in workers]
        leases = [lease for some in taken for lease in some]
        assert {lease.group for lease in leases} == {"d0.example", "d1.example", "d2.example"}
        assert len(leases) == 3
        fetched += [(lease.host, lease.entry) for lease in leases]
        for worker, some in zip(workers, taken, strict=True):
            await done(worker, some)
    assert len(set(fetched)) == 24


async def test_a_domain_gets_exactly_its_pages_whoever_asks(crawl: SharedCrawl) -> None:
    first = await crawl.join("w1", pages_per_domain=5)
    second = await crawl.join("w2", pages_per_domain=5)
    await push_all(first, web(4, HOSTS))
    fail = (await first.lease(1)).leases
    fetched = await crawl_all(second, 3)
    assert len(fetched) == 15 - len(fail)
    # What has failed leaves room for as many others, at whichever host they are.
    dead = [(one.shard, Settlement(one.token, "dead", reason="http_404")) for one in fail]
    await first.settle(dead)
    fetched += await crawl_all(second, 3)
    assert len(fetched) == 15
    counts = await first.counts()
    assert (counts["done"], counts["dead"]) == (15, len(fail))
    assert counts["filtered:domain_limit"] == len(web(4, HOSTS)) - 15 - len(fail)


async def test_a_change_of_pace_reaches_every_worker_with_its_heartbeat(crawl: SharedCrawl) -> None:
    first, second = await crawl.join("w1"), await crawl.join("w2")
    await first.change_pace("a.example", {"delay": 2, "per_host": 3})
    await first.change_pace("*.b.example", {"per_host": 0})  # no number of connections
    await second.renew(1_000_000, {})
    assert second.overrides.for_host("http://a.example").delay_s == 2
    assert not first.overrides
    assert second.overrides.for_host("http://x.b.example").per_host is None
    await push_all(second, [link("http://a.example", f"/{number}") for number in range(5)])
    assert len((await second.lease(30)).leases) == 3
    await first.change_pace("a.example", None)
    await second.renew(1_000_000, {})
    assert not second.overrides.for_host("http://a.example").delay_s


def test_what_is_changed_wins_over_what_is_configured() -> None:
    configured = Overrides({"A.example": {"delay": 5, "obey_robots": False}, "*": {"delay": 1}})
    changed = configured.changed({"a.example": {"delay": 2}, "bad host": {"delay": 1}})
    found = changed.for_host("https://a.example")
    assert (found.delay_s, found.obey_robots) == (2, False)
    assert changed.for_host("https://b.example").delay_s == 1
    assert configured.for_host("https://a.example").delay_s == 5


async def leases(worker: Frontier) -> None:
    await worker.lease(1)


async def settles(worker: Frontier) -> None:
    for shard in range(len(worker.shards)):
        await worker.settle([(shard, Settlement(0, "done"))])


async def waits(_: Frontier) -> None:
    await asyncio.sleep(ASK_EVERY_S)


@pytest.mark.parametrize("hear", [leases, settles, waits])
async def test_a_hold_reaches_a_worker_that_has_leased_more_of_the_host(
    crawl: SharedCrawl, hear: Callable[[Frontier], Awaitable[None]]
) -> None:
    host = "http://a.example"
    first, second = await crawl.join("w1", per_host=4), await crawl.join("w2", per_host=4)
    await push_all(first, [link(host, f"/{number}") for number in range(6)])
    mine, others = (await first.lease(2)).leases, (await second.lease(2)).leases
    assert await second.new_holds(others) == {}
    held = Settlement(mine[0].token, "retry", failed=2, hold_ms=60_000)
    await first.settle([(mine[0].shard, held)])
    await hear(second)
    [(name, left_ms)] = (await second.new_holds(others)).items()
    assert (name, left_ms > 30_000) == (host, True)
    assert await second.new_holds(others) == {}
    back = Settlement(others[0].token, "return", hold_ms=90_000)
    await second.settle([(others[0].shard, back)])
    assert (await first.lease(6)).leases == []


async def test_a_hold_that_is_told_while_others_are_heeded_is_heeded_next(
    crawl: SharedCrawl,
) -> None:
    first, second = await crawl.join("w1", per_host=4), await crawl.join("w2", per_host=4)
    host, later = "http://a.example", "http://a.example:81"
    while first.shard_of(later) is not first.shard_of(host):
        later += "1"
    await push_all(first, [link(one, f"/{number}") for one in (host, later) for number in range(6)])
    mine, others = [], []
    for _ in range(4):
        mine += (await first.lease(1)).leases
        others += (await second.lease(1)).leases
    assert {one.host for one in mine} == {one.host for one in others} == {host, later}

    async def hold(name: str) -> None:
        [token, *_] = (one.token for one in mine if one.host == name)
        held = Settlement(token, "retry", failed=2, hold_ms=60_000)
        await first.settle([(mine[0].shard, held)])
        await second.lease(1)

    await hold(host)
    shard = second.shard_of(host)
    shard.client = Interrupted(shard.client, partial(hold, later))
    assert host in await second.new_holds(others)
    assert later in await second.new_holds(others)


class Interrupted:
    """A client that lets something else happen after it has read the first records."""

    def __init__(self, client: Any, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._client = client
        self._meanwhile: Callable[[], Awaitable[None]] | None = meanwhile

    async def hmget(self, *args: Any) -> Any:
        found = await self._client.hmget(*args)
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile:
            await meanwhile()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)
