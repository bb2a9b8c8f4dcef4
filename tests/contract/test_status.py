"""How a crawl stands, as everybody who looks at it sees it: wherever its shards lie."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis import Redis
from redis.asyncio.client import Pipeline
from redis.asyncio.client import Redis as Client

from crawlproj.discover.seeds import SeedList
from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Settlement
from crawlproj.frontier.refusals import CrawlDamaged, CrawlNewer
from crawlproj.frontier.survey import tick
from crawlproj.operate import crawls, status, status_view
from crawlproj.operate.status import Status
from tests.contract.shared_crawl import HOSTS, SharedCrawl, done, web
from tests.lua.helpers import CRAWL, MINUTE_MS, link
from tests.servers.frontier import push_all
from tests.servers.redis import RedisServer


async def look(frontier: Frontier) -> Status:
    return await status.read(Frontier(frontier.client, CRAWL, "look"), in_detail=True)


# What it costs


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The calls that clients make meanwhile: single commands, and pipelines as one."""
    calls: list[str] = []

    def counting(kind: type, name: str) -> None:
        original: Callable[..., Awaitable[Any]] = getattr(kind, name)

        async def call(self: Any, *args: Any, **options: Any) -> Any:
            calls.append(str(args[0]) if args else name)
            return await original(self, *args, **options)

        monkeypatch.setattr(kind, name, call)

    counting(Client, "execute_command")
    counting(Pipeline, "execute")
    yield calls
    monkeypatch.undo()


async def test_a_look_costs_as_many_calls_for_many_workers_hosts_and_shards_as_for_one(
    redis_server: RedisServer, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cost(crawl: SharedCrawl, workers: int, hosts: int) -> tuple[list[str], list[str]]:
        mine = await crawl.join("w0")
        for number in range(1, workers):
            for shard in mine.shards:
                await shard.renew(f"w{number}", MINUTE_MS, {"pages": number})
        await push_all(mine, [link(f"http://h{number}", "/") for number in range(hosts)])
        with counted(monkeypatch) as whole:
            now = await look(mine)
        with counted(monkeypatch) as short:
            await tick(mine)
        assert (len(now.workers), now.hosts, now.queued) == (workers, hosts, hosts)
        return whole, short

    found = []
    for shards, workers, hosts in ((1, 1, 1), (12, 100, 300)):
        redis.flushall()
        async with SharedCrawl(redis_server.url, redis, shards) as crawl:
            found.append(await cost(crawl, workers, hosts))
    few, many = found
    assert few == many
    assert (len(few[0]), len(few[1])) == (5, 1)


async def test_a_tick_reads_what_it_writes_and_nothing_else(
    redis_server: RedisServer, redis: Redis
) -> None:
    async with SharedCrawl(redis_server.url, redis, 3) as crawl:
        mine, _ = await crawl.join("w1"), await crawl.join("w2")
        await push_all(mine, web())
        await done(mine, (await mine.lease(6)).leases)
        held = (await mine.lease(3)).leases
        redis.config_resetstat()
        now = await tick(mine)
        stats = redis.info("commandstats")
        assert now.done + now.leased + now.queued == len(web())
        assert (now.leased, now.hosts, now.workers) == (len(held), len(HOSTS), 2)
        asked = {name.removeprefix("cmdstat_"): one["calls"] for name, one in stats.items()}
        ours = {name: calls for name, calls in asked.items() if not name.startswith("config")}
        assert ours == {"zcard": 1, "hmget": 3, "hlen": 3}


# What it says


async def test_a_crawl_that_has_not_begun_has_every_key_and_its_seeds_are_counted(
    crawl: SharedCrawl,
) -> None:
    mine = await crawl.join("w")
    await mine.client.lpush("other:start_urls", "http://a/", "http://b/")
    seeds = SeedList(mine.client, "other:start_urls")
    nothing = await status.read(Frontier(mine.client, "other", "look"), seeds)
    await mine.client.delete("other:start_urls")
    assert status.as_json(nothing).keys() == status.as_json(await look(mine)).keys()
    assert (nothing.epoch, nothing.state, nothing.seeds_waiting) == (None, "empty", 2)


async def test_leases_of_a_worker_are_those_on_all_shards_and_it_tells_of_itself(
    crawl: SharedCrawl,
) -> None:
    mine = await crawl.join("mine~1")
    await crawl.join("other~2")
    await push_all(mine, web())
    leased = len((await mine.lease(9)).leases)
    about = {"host": "box", "pid": 7, "pages": 40, "pages_per_s": 2.5, "memory": 10**8}
    await mine.renew(MINUTE_MS, {**about, "timeout_ms": MINUTE_MS})
    now = await look(mine)
    one, other = now.workers
    assert (one.name, one.host, one.pid, one.alive) == ("mine", "box", 7, True)
    assert (one.leased, one.pages, one.pages_per_s, one.memory) == (leased, 40, 2.5, 10**8)
    assert one.heartbeat_s is not None and 0 <= one.heartbeat_s < 60
    assert (other.name, other.leased, other.heartbeat_s) == ("other", 0, None)
    assert (now.alive, now.pages_per_s, now.balance) == (2, 2.5, 0)


async def test_what_a_hostile_worker_tells_is_no_number(crawl: SharedCrawl) -> None:
    mine = await crawl.join("w")
    await mine.renew(
        MINUTE_MS, {"pages": "x", "pages_per_s": float("inf"), "memory": [], "pid": {}}
    )
    [worker] = (await look(mine)).workers
    assert (worker.pages, worker.pages_per_s, worker.memory, worker.pid) == (0, 0, 0, 0)


async def test_the_time_in_which_it_ran_goes_on_while_somebody_is_at_it(crawl: SharedCrawl) -> None:
    mine = await crawl.join("w")
    await push_all(mine, web())
    crawl.at(3)
    await mine.renew(1000 * MINUTE_MS, {})
    crawl.at(4)
    assert round((await look(mine)).elapsed_s / 60) == 4
    await mine.leave()
    crawl.at(60)
    now = await look(mine)
    assert (now.state, round(now.elapsed_s / 60)) == ("stopped", 4)
    summary = status.sum_up(now)
    assert (summary.duration_s, summary.finished_at) == (now.elapsed_s, now.finished_at)
    assert now.finished_at is not None and now.started_at is not None
    assert now.finished_at[:16] != summary.started_at


async def test_the_estimate_is_bounded_by_the_slowest_host(crawl: SharedCrawl) -> None:
    mine = await crawl.join("w", delay_s=1.0, per_host=2)
    await mine.renew(MINUTE_MS, {"pages_per_s": 100})
    await push_all(mine, [*web(1), *(link(HOSTS[3], f"/long/{number}") for number in range(99))])
    now = await look(mine)
    assert now.queued / now.pages_per_s < 2
    assert (now.slowest[0].host, now.slowest[0].queued) == (HOSTS[3], 100)
    assert now.estimate_s == 100 * 1.0 / 2
    assert f"for {HOSTS[3]} cannot be read faster" in status_view.as_text(now)
    await mine.renew(MINUTE_MS, {})
    assert (await look(mine)).estimate_s == 50  # nothing was done yet: the bound holds


async def test_a_page_budget_ends_before_the_slowest_host_does(crawl: SharedCrawl) -> None:
    mine = await crawl.join("w", delay_s=1.0, pages=40)
    await mine.renew(MINUTE_MS, {"pages_per_s": 10})
    await push_all(mine, [link(HOSTS[3], f"/long/{number}") for number in range(99)])
    now = await look(mine)
    assert (now.estimate_s, now.estimate_bound) == (4, "pages")
    assert "then the budget of pages is used up" in status_view.as_text(now)
    await mine.renew(MINUTE_MS, {"pages_per_s": 0.01})
    assert "cannot be read faster" not in status_view.as_text(await look(mine))


async def test_hosts_that_are_left_alone_come_with_the_reason_the_longest_first(
    crawl: SharedCrawl,
) -> None:
    mine = await crawl.join("w")
    await push_all(mine, web(2, HOSTS[:3]))
    for lease in (await mine.lease(12)).leases:
        minutes = HOSTS.index(lease.host)
        failed = Settlement(lease.token, "retry", delay_ms=MINUTE_MS, hold_ms=minutes * MINUTE_MS)
        failed.failed, failed.hold_reason = int(minutes > 0), "http_503"
        await mine.settle([(lease.shard, failed)])
    now = await look(mine)
    assert [host.host for host in now.held] == [HOSTS[2], HOSTS[1]]
    assert {host.why for host in now.held} == {"http_503"}
    assert [round(host.held_s / 60) for host in now.held] == [2, 1]
    assert [host.host for host in now.failing] == [HOSTS[1], HOSTS[2]]
    assert set(status.sum_up(now).failed_hosts) == {HOSTS[1], HOSTS[2]}
    text = status_view.as_text(now)
    assert "left alone" in text and "http_503" in text and "failed 1 time in a row" in text
    crawl.at(10)
    assert (await look(mine)).held == ()


async def test_the_whole_crawl_fits_a_screen_and_one_line(crawl: SharedCrawl) -> None:
    def size_of(leases: list[Any]) -> str:
        return f"{len(leases)}.0 kB"

    mine = await crawl.join("w")
    await push_all(mine, web())
    dead, *rest = (await mine.lease(5)).leases
    await mine.settle([(dead.shard, Settlement(dead.token, "dead", reason="http_404"))])
    await done(mine, rest, size=1000)
    now = await look(mine)
    text = status_view.as_text(now)
    assert f"{CRAWL}: running for " in text
    assert "  dead                   1  http_404 1\n" in text
    assert f"  done        {len(rest):>12}  " in text and f"{size_of(rest)}\n" in text
    assert all(line == line.rstrip() and len(line) <= 100 for line in text.splitlines())
    assert len(status_view.in_one_line(now)) < 100


async def test_looking_changes_nothing(crawl: SharedCrawl) -> None:
    mine = await crawl.join("w")
    await push_all(mine, web())
    await mine.lease(3)
    before = crawl.states()
    await look(mine)
    await tick(mine)
    assert crawl.states() == before


async def test_a_damaged_count_is_told_by_a_tick_in_one_line(
    redis_server: RedisServer, redis: Redis
) -> None:
    async with SharedCrawl(redis_server.url, redis, 1) as crawl:
        mine = await crawl.join("w")
        redis.hset(keys.counts(CRAWL, 0), "dead", "many")
        with pytest.raises(CrawlDamaged):
            await tick(mine)


@pytest.mark.parametrize(
    "change",
    [{"version": 99}, {"zeal": 1}, {"strategy": "telepathy"}],
    ids=["number", "new", "value"],
)
async def test_a_crawl_of_another_version_is_shown_as_far_as_it_is_known(
    redis_server: RedisServer, redis: Redis, change: dict[str, object]
) -> None:
    async with SharedCrawl(redis_server.url, redis, 2) as crawl:
        mine = await crawl.join("w")
        await push_all(mine, web())
        kept = json.loads(redis.hget(keys.meta(CRAWL, 0), "plan"))  # type: ignore[arg-type]
        by = {"plan": json.dumps({**kept, **change}), "made_by": "9.8.7"}
        redis.hset(keys.meta(CRAWL, 0), mapping=by)
        now = await look(mine)
        assert (now.queued, now.hosts, now.balance) == (len(web()), len(HOSTS), 0)
        assert "crawlproj 9.8.7 has begun it" in now.unreadable
        assert now.unreadable in status_view.as_text(now).splitlines()[2]
        assert (await crawls.read(mine.client, CRAWL)).queued == now.queued
        with pytest.raises(CrawlNewer, match=r"9\.8\.7"):
            await Frontier(mine.client, CRAWL, "worker").attach()
