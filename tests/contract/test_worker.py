"""A worker's loops and exchanges on a real frontier, where the order of things is delicate."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Push, Settlement
from crawlproj.frontier.scripts import script
from crawlproj.server.connection import connect
from crawlproj.worker.delivery import ROWS
from crawlproj.worker.exchange import Worker
from crawlproj.worker.outages import FIRST_WAIT_S
from tests.contract.mortal import Judged, let_pass
from tests.contract.shared_crawl import HOSTS, SharedCrawl, done, hosts_of, web
from tests.lua.helpers import CRAWL, link, seed
from tests.servers.frontier import push_all
from tests.servers.proxy import Proxy
from tests.servers.redis import PATIENCE, RedisServer, follow, hand_over

TIMEOUT_S = 60


async def until(condition: Callable[[], object], what: str) -> None:
    """Return when it is so."""
    for _ in range(1000 * PATIENCE):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"still not: {what}")


@asynccontextmanager
async def working(frontier: Frontier, prefetch: int = 8) -> AsyncIterator[Worker]:
    """A worker whose loops run."""
    worker = Worker(frontier, Judged(), prefetch=prefetch, lease_timeout_s=TIMEOUT_S)
    await worker.start()
    try:
        yield worker
    finally:
        await worker.close()


async def through(proxy: Proxy, other: Frontier) -> Frontier:
    """The same crawl for another worker, by way of the proxy."""
    frontier = Frontier(await connect(proxy.url), CRAWL, "far")
    await frontier.open(other.plan, "run")
    await frontier.renew(1000 * TIMEOUT_S, {})
    return frontier


async def test_a_push_that_was_given_up_does_not_swallow_the_next(
    redis_server: RedisServer,
) -> None:
    """Redis has carried it out, and only its reply was lost."""
    with Proxy(redis_server.port) as proxy:
        near = Frontier(await connect(redis_server.url), CRAWL, "near")
        await near.open(near.plan, "run")
        far = await through(proxy, near)
        await push_all(far, [link(HOSTS[0], "/0")])
        proxy.lose_replies(1, to=script("push").sha1)
        with pytest.raises(RedisConnectionError):
            await push_all(far, [link(HOSTS[0], "/1"), link(HOSTS[0], "/2")])
        assert await push_all(far, [link(HOSTS[0], "/3")]) == 1
        assert (await near.counts())["discovered"] == 4
        await near.close()
        await far.close()


async def test_a_paused_worker_begins_nothing_of_what_it_has_in_hand(crawl: SharedCrawl) -> None:
    frontier = await crawl.join("w", per_host=100)
    await push_all(frontier, web())
    async with working(frontier, prefetch=12) as worker:
        await until(lambda: worker.leased_ahead >= 12, "a full buffer")
        await frontier.set_state("paused", ["running"])
        await until(lambda: worker.state == "paused", "heard of the pause")
        assert worker.take() is None
        assert worker.leased_ahead >= 12
        await frontier.set_state("running", ["paused"])
        await until(lambda: worker.take() is not None, "heard that it goes on")
        worker.begun = 0


async def test_the_engine_is_woken_as_soon_as_it_may_have_what_it_was_refused(
    crawl: SharedCrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backlog that was full is handed in; a heartbeat that was late has got through."""
    woken: list[None] = []
    frontier = await crawl.join("w")
    await push_all(frontier, web(1))

    class Sleeper(Judged):
        def wake(self) -> None:
            woken.append(None)

    worker = Worker(frontier, Sleeper(), prefetch=8, lease_timeout_s=TIMEOUT_S, backlog=2)
    await worker.lease(8)

    async def is_woken_by(operation: Callable[[], Awaitable[None]]) -> bool:
        assert worker.take() is None
        woken.clear()
        await operation()
        return len(woken) == 1 and worker.take() is not None

    worker.push(link(HOSTS[0], "/new"))
    worker.push(link(HOSTS[1], "/new"))
    assert await is_woken_by(worker.flush)
    let_pass(monkeypatch, 2 * TIMEOUT_S)
    assert await is_woken_by(worker.beat)
    woken.clear()
    await worker.flush()
    await worker.beat()
    assert woken == [], "it has what it asked for"


async def test_no_page_is_begun_while_others_wait_to_be_read(crawl: SharedCrawl) -> None:
    """Their attributes, their archive: what is slower than the crawl must not fill the memory."""
    frontier = await crawl.join("w")
    await push_all(frontier, web(1))
    waiting = [True]
    woken: list[None] = []

    class Behind(Judged):
        def is_behind(self) -> bool:
            return bool(waiting)

        def wake(self) -> None:
            woken.append(None)

    worker = Worker(frontier, Behind(), prefetch=8, lease_timeout_s=TIMEOUT_S)
    await worker.lease(8)
    assert worker.take() is None
    waiting.clear()
    woken.clear()
    await worker.flush()
    assert woken == [None]
    assert worker.take() is not None


async def test_a_worker_that_has_room_for_more_hears_of_holds_before_it_settles_anything(
    crawl: SharedCrawl,
) -> None:
    """What it has in hand of a host must not start when others were asked to leave it alone."""
    heard: dict[str, int] = {}

    class Listener(Judged):
        def update_holds(self, held_ms: dict[str, int]) -> None:
            heard.update(held_ms)

    first, second = [await crawl.join(name, per_host=8) for name in ("one", "two")]
    host = HOSTS[0]
    await push_all(first, [link(host, "/1"), link(host, "/2")])
    [mine] = (await first.lease(1)).leases
    worker = Worker(second, Listener(), prefetch=8, lease_timeout_s=TIMEOUT_S)
    await worker.start()
    await until(lambda: worker.leased_ahead == 1, "the other in hand")
    held = Settlement(mine.token, "retry", failed=2, hold_ms=60_000, delay_ms=1)
    await first.settle([(mine.shard, held)])
    await until(lambda: host in heard, "it hears of the hold")
    await worker.close()


async def test_a_seed_that_a_server_has_lost_with_its_last_writes_is_pushed_again(
    tmp_path: Path,
) -> None:
    """As after a power cut with `appendfsync everysec`: nothing else would find it again. Also if
    what is learnt anew then has to be asked for twice."""

    class Scoped(Judged):
        def scope_names(self, seed: Push) -> set[str]:
            return {"h0"}

    with RedisServer(tmp_path) as server, Proxy(server.port) as proxy:
        async with asyncio.timeout(60 * PATIENCE):
            frontier = Frontier(await connect(proxy.url), CRAWL, "w")
            await frontier.open(frontier.plan, "run")
            worker = Worker(frontier, Scoped(), prefetch=8, lease_timeout_s=TIMEOUT_S)
            await worker.start()
            await frontier.client.save()
            worker.push(seed(HOSTS[0], "/"))
            await until(lambda: worker.leased_ahead == 1, "leased")
            proxy.lose_replies(1, to="ZRANGE")
            await asyncio.to_thread(lambda: (server.kill(), server.start()))
            with server.client() as redis:
                counts = keys.counts(CRAWL, 0)
                await until(lambda: redis.hget(counts, "discovered"), "pushed again")
            assert await frontier.in_scope(["h0"]) == {"h0"}
            await until(lambda: worker.leased_ahead == 1, "leased again")
            await worker.close()
            await frontier.close()


async def test_a_worker_that_has_closed_leaves_no_thread(crawl: SharedCrawl) -> None:
    def threads() -> list[str]:
        return [one.name for one in threading.enumerate() if one.name.startswith(ROWS)]

    frontier = await crawl.join("w")
    await push_all(frontier, [link(HOSTS[0], "/1")])
    before = len(threads())
    async with working(frontier) as worker:
        await until(lambda: worker.leased_ahead == 1, "the URL")
        lease = worker.take()
        assert lease is not None
        worker.end(Settlement(lease.token, "done"))
        await until(lambda: worker.begun == 0, "settled")
        assert len(threads()) == before + 1
    await until(lambda: len(threads()) == before, "gone")


async def test_what_is_leased_behind_its_back_comes_into_its_hands(crawl: SharedCrawl) -> None:
    """A call that the worker had given up, and that Redis carried out later."""
    frontier = await crawl.join("w")
    worker = Worker(frontier, Judged(), prefetch=8, lease_timeout_s=TIMEOUT_S)
    await push_all(frontier, [link(HOSTS[0], "/1")])
    await worker.lease(1)
    assert worker.take() is not None
    await push_all(frontier, [link(HOSTS[1], "/2")])
    assert len((await frontier.lease(1)).leases) == 1
    await worker.beat()
    assert (worker.leased_ahead, worker.leases) == (0, 1)
    await worker.beat()
    assert (worker.leased_ahead, worker.leases) == (1, 2)


async def test_a_worker_that_was_dead_takes_nothing_before_it_knows_what_is_its_own(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many heartbeats it has under way."""
    with Proxy(redis_server.port) as proxy:
        near = Frontier(await connect(redis_server.url), CRAWL, "near")
        await near.open(near.plan, "run")
        await near.renew(1000 * TIMEOUT_S, {})
        await push_all(near, web(1))
        far = await through(proxy, near)
        worker = Worker(far, Judged(), prefetch=8, lease_timeout_s=TIMEOUT_S)
        await worker.lease(8)
        assert worker.leased_ahead == 8
        await far.leave()
        assert (await near.reclaim()).queued == 8
        assert len((await near.lease(12)).leases) == 12
        let_pass(monkeypatch, 2 * TIMEOUT_S)
        await asyncio.gather(far.counts(), far.counts())  # a connection for each heartbeat
        proxy.delay_s = 0.05
        beats = asyncio.gather(worker.beat(), worker.beat())
        while not beats.done():
            assert worker.take() is None
            await asyncio.sleep(0.001)
        await beats
        assert worker.has_valid_leases
        assert worker.leased_ahead == 0
        await near.close()
        await far.close()


async def test_a_worker_leaves_a_master_that_has_become_a_replica(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Behind a name or a proxy: those lead to the new master, but only who connects again."""
    with ExitStack() as stack:
        master = stack.enter_context(RedisServer(tmp_path / "master"))
        heir = stack.enter_context(RedisServer(tmp_path / "heir"))
        proxy = stack.enter_context(Proxy(master.port))
        follow(heir, master)
        frontier = Frontier(await connect(proxy.url), CRAWL, "w")
        await frontier.open(frontier.plan, "run")
        async with working(frontier) as worker:
            await push_all(frontier, [link(HOSTS[0], "/1")])
            await until(lambda: worker.leased_ahead == 1, "the URL")
            await asyncio.to_thread(hand_over, master, heir)
            lease = worker.take()
            assert lease is not None
            worker.end(Settlement(lease.token, "done"))
            await until(lambda: "does not answer" in caplog.text, "refused")
            await asyncio.sleep(3 * FIRST_WAIT_S)
            assert "answers again" not in caplog.text, "it answers, and cannot be written to"
            proxy.lead_to(heir.port)
            await until(lambda: worker.begun == 0, "settled by the heir")
        assert (await frontier.counts())["done"] == 1
        await frontier.close()
    assert caplog.text.count("answers again") == 1


async def test_what_comes_to_a_shard_that_a_dead_worker_has_ended_before_the_others_is_taken_in(
    sharded: SharedCrawl,
) -> None:
    """Links of a seed that came to one that had not been ended, and seeds that users push."""
    frontier = await sharded.join("w")
    worker = Worker(frontier, Judged(), prefetch=8, lease_timeout_s=TIMEOUT_S)
    hosts = [hosts_of(frontier, number)[0] for number in range(3)]
    for path, push in (("/link", link), ("/seed", seed)):
        await frontier.shards[2].finish()
        await frontier.shards[1].finish()
        worker.push(seed(hosts[0], path))
        await worker.flush()
        (lease,) = (await frontier.lease(1)).leases
        found = [push(hosts[number], path) for number in (1, 2)]
        if push is seed:
            await worker.push_now(found)
        for one in found:
            worker.push(one)
        worker.end(Settlement(lease.token, "done"))
        worker.begun = 1
        await worker.flush()
        leases = (await frontier.lease(12)).leases
        assert {one.host for one in leases} == set(hosts[1:])
        await done(frontier, leases)
    assert await frontier.finish() == "finished"
    assert (await frontier.counts())["done"] == 6


async def test_a_seed_opens_a_crawl_again_that_others_have_just_ended(
    crawl: SharedCrawl, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        frontier = await crawl.join("w")
        worker = Worker(frontier, Judged(), prefetch=8, lease_timeout_s=TIMEOUT_S)
        assert await frontier.finish() == "finished"
        worker.push(link(HOSTS[0], "/late"))
        await worker.flush()
        assert await frontier.state() == "finished"
        assert "1 URL came after the crawl had finished" in caplog.text
        worker.push(seed(HOSTS[0], "/seed"))
        worker.push(seed(HOSTS[1], "/seed"))
        await worker.flush()
        assert await frontier.state() == "running"
        assert (await frontier.counts())["discovered"] == 2
        leases = (await frontier.lease(12)).leases
        assert len(leases) == 2
        await done(frontier, leases)
        assert await frontier.finish() == "finished"
        worker.push(seed(HOSTS[1], "/seed"))
        await worker.flush()
        assert await frontier.state() == "finished", "a seed that is known opens nothing"


async def test_a_worker_reads_only_what_has_come_into_scope_since_it_read_last(
    redis_server: RedisServer,
) -> None:
    frontier = Frontier(await connect(redis_server.url), CRAWL, "w")
    await frontier.open(frontier.plan, "run")
    await frontier.renew(1000 * TIMEOUT_S, {})
    worker = Worker(frontier, Judged(), prefetch=8, lease_timeout_s=TIMEOUT_S)

    async def sent_for_a_lease() -> int:
        before = (await frontier.client.info("stats"))["total_net_output_bytes"]
        await worker.lease(1)
        after = (await frontier.client.info("stats"))["total_net_output_bytes"]
        return int(after - before)

    many = {f"{number:0200}" for number in range(1000)}
    await frontier.widen_scope(many)
    whole = await sent_for_a_lease()
    assert worker.scope == many
    await frontier.widen_scope(["new"])
    assert await sent_for_a_lease() < whole / 10
    assert worker.scope == {*many, "new"}
    await frontier.close()


async def test_what_one_worker_has_ahead_keeps_no_other_from_a_connection_of_the_host(
    crawl: SharedCrawl,
) -> None:
    """Four workers with two connections each, of which no request ever ends, on a host that may
    have eight."""
    names, each = ("w1", "w2", "w3", "w4"), 2
    frontiers = [await crawl.join(name, per_host=each * len(names)) for name in names]
    await push_all(frontiers[0], web(50, HOSTS[:1]))
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(working(one, each)) for one in frontiers]

        def all_are_busy() -> bool:
            for worker in workers:
                while worker.begun < each and worker.take():
                    pass
            assert sum(worker.leases for worker in workers) <= each * len(names)
            return [worker.begun for worker in workers] == [each] * len(names)

        await until(all_are_busy, "every connection is used")
        assert not any(worker.leased_ahead for worker in workers)
    crawl.check()


async def test_what_is_had_ahead_stays_if_only_other_shards_have_too_little(
    sharded: SharedCrawl,
) -> None:
    """Else it would be leased and returned over and over, in vain."""
    frontier, other = await sharded.join("w", per_host=20), await sharded.join("other")
    await push_all(frontier, web(20, hosts_of(frontier, 0)[:1]))
    assert len((await other.lease(3)).leases) == 1
    worker = Worker(frontier, Judged(), prefetch=1, lease_timeout_s=TIMEOUT_S)
    await worker.lease(1)
    assert worker.take() is not None
    batch = await worker.lease(6)
    assert set(batch.short_at) == {1, 2}
    assert (len(batch.leases), worker.leased_ahead) == (2, 2)
    worker.begun = 0
