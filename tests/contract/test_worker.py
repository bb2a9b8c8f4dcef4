"""A worker's loops and exchanges on a real frontier, where the order of things is delicate."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Lost, Push, Settlement
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.saved import SavedBytes
from crawlproj.frontier.scripts import script
from crawlproj.server.connection import connect
from crawlproj.worker.delivery import ROWS
from crawlproj.worker.exchange import Worker
from crawlproj.worker.outages import FIRST_WAIT_S
from crawlproj.worker.reclaiming import Reclaiming
from tests.contract.mortal import Judged, judged, let_pass
from tests.contract.shared_crawl import HOSTS, SharedCrawl, done, hosts_of, web
from tests.lua.helpers import CRAWL, link, seed
from tests.servers.frontier import push_all, reclaim
from tests.servers.proxy import Proxy
from tests.servers.redis import PATIENCE, RedisServer, follow, hand_over, until

TIMEOUT_S = 60
T = TypeVar("T")


@asynccontextmanager
async def working(
    frontier: Frontier, connections: int = 8, hooks: Judged | None = None
) -> AsyncIterator[Worker]:
    """A worker whose loops run."""
    hooks = hooks or Judged()
    worker = Worker(frontier, hooks, connections=connections, lease_timeout_s=TIMEOUT_S)
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
    async with working(frontier, connections=12) as worker:
        await until(lambda: worker.leased_ahead >= 12, "a full buffer")
        await frontier.set_state("paused", ["running"])
        await until(lambda: worker.state == "paused", "heard of the pause")
        assert worker.take() is None
        assert worker.leased_ahead >= 12
        await frontier.set_state("running", ["paused"])
        await until(lambda: worker.take() is not None, "heard that it goes on")
        worker.begun = 0


async def test_a_worker_that_is_ending_gives_back_what_it_has_not_begun_and_leases_no_more(
    crawl: SharedCrawl,
) -> None:
    """Its slowest request may take minutes, which the others need not wait for."""

    class Ending(Judged):
        has_begun_to_end = False

        def is_ending(self) -> bool:
            return self.has_begun_to_end

    frontier, hooks = await crawl.join("w", per_host=100), Ending()
    await push_all(frontier, web())
    async with working(frontier, 12, hooks) as worker:
        await until(lambda: worker.leased_ahead >= 12, "a full buffer")
        assert worker.take() is not None, "a slow one"
        hooks.has_begun_to_end = True
        await until(lambda: worker.leased_ahead == 0, "nothing in hand")
        other = await crawl.join("other")
        leases = (await other.lease(1000)).leases
        assert len(leases) == len(web()) - 1
        await done(other, leases)
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

    worker = Worker(frontier, Sleeper(), connections=8, lease_timeout_s=TIMEOUT_S, most_waiting=2)
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

    worker = Worker(frontier, Behind(), connections=8, lease_timeout_s=TIMEOUT_S)
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
    worker = Worker(second, Listener(), connections=8, lease_timeout_s=TIMEOUT_S)
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
            worker = Worker(frontier, Scoped(), connections=8, lease_timeout_s=TIMEOUT_S)
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
        worker.end(judged(Settlement(lease.token, "done")))
        await until(lambda: worker.begun == 0, "settled")
        assert len(threads()) == before + 1
    await until(lambda: len(threads()) == before, "gone")


async def test_what_is_leased_behind_its_back_comes_into_its_hands(crawl: SharedCrawl) -> None:
    """A call that the worker had given up, and that Redis carried out later."""
    frontier = await crawl.join("w")
    worker = Worker(frontier, Judged(), connections=8, lease_timeout_s=TIMEOUT_S)
    await push_all(frontier, [link(HOSTS[0], "/1")])
    await worker.lease(1)
    assert worker.take() is not None
    await push_all(frontier, [link(HOSTS[1], "/2")])
    assert len((await frontier.lease(1)).leases) == 1
    await worker.beat()
    assert (worker.leased_ahead, worker.leases) == (0, 1)
    await worker.beat()
    assert (worker.leased_ahead, worker.leases) == (1, 2)


async def test_what_another_has_settled_meanwhile_is_not_begun(crawl: SharedCrawl) -> None:
    """Where the crawl speculates, and this worker has waited too long with it."""
    slow = await crawl.join("slow", speculate=True, per_host=2)
    idle = await crawl.join("idle")
    for number in range(crawl.shards):
        crawl.redis.hset(keys.durations(CRAWL, number), "31", 100)  # a minute each
    crawl.at(0)
    worker = Worker(slow, Judged(), connections=8, lease_timeout_s=TIMEOUT_S)
    await push_all(slow, [link(HOSTS[0], "/1")])
    await worker.lease(1)
    crawl.at(5)
    [copy] = (await idle.lease(1)).leases
    assert await done(idle, [copy]) == 0
    await worker.beat()
    assert worker.take() is None
    assert (worker.leases, await slow.held_leases()) == (0, [])


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
        worker = Worker(far, Judged(), connections=8, lease_timeout_s=TIMEOUT_S)
        await worker.lease(8)
        assert worker.leased_ahead == 8
        await far.leave()
        assert (await reclaim(near)).queued == 8
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
            worker.end(judged(Settlement(lease.token, "done")))
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
    worker = Worker(frontier, Judged(), connections=8, lease_timeout_s=TIMEOUT_S)
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
        worker.end(judged(Settlement(lease.token, "done")))
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
        worker = Worker(frontier, Judged(), connections=8, lease_timeout_s=TIMEOUT_S)
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
    worker = Worker(frontier, Judged(), connections=8, lease_timeout_s=TIMEOUT_S)

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
    worker = Worker(frontier, Judged(), connections=1, lease_timeout_s=TIMEOUT_S)
    await worker.lease(1)
    assert worker.take() is not None
    batch = await worker.lease(6)
    assert set(batch.short_at) == {1, 2}
    assert (len(batch.leases), worker.leased_ahead) == (2, 2)
    worker.begun = 0


class AwayOnce:
    """A client whose server does not hear the first script, or count, that it is sent."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.was_away = False

    async def evalsha(self, *call: Any) -> Any:
        self._be_away()
        return await self._client.evalsha(*call)

    async def hincrby(self, *call: Any) -> Any:
        self._be_away()
        return await self._client.hincrby(*call)

    def _be_away(self) -> None:
        if not self.was_away:
            self.was_away = True
            raise RedisConnectionError

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


async def retry_once(call: Callable[[], Awaitable[T]]) -> T:
    with suppress(RedisConnectionError):
        return await call()
    return await call()


async def test_urls_that_were_lost_too_often_are_reported_though_a_later_shard_is_away(
    redis_server: RedisServer,
) -> None:
    plan = Plan(shards=3, max_attempts=1, seen_capacity=1000)
    frontier = Frontier(await connect(redis_server.url), CRAWL, "w")
    await frontier.open(plan, "run")
    hosts = [hosts_of(frontier, number)[0] for number in range(3)]
    await push_all(frontier, [link(host, "/1") for host in hosts])
    await frontier.renew(1, {})
    for shard in frontier.shards:
        assert len((await shard.lease("w", 1)).leases) == 1
    reported: set[str] = set()

    class Reporting(Judged):
        async def report_lost(self, dead: list[Lost]) -> None:
            reported.update(one.host for one in dead)

    away = frontier.shards[1].client = AwayOnce(frontier.shards[1].client)
    await asyncio.sleep(0.01)
    await Reclaiming(frontier, Reporting(), retry_once).bury()
    await frontier.close()
    assert away.was_away
    assert reported == set(hosts)


class Witness(Judged):
    """Hooks that keep what is reported, and whether it is on disk."""

    def __init__(self) -> None:
        self.reported: list[str] = []
        self.saved: list[str] = []

    async def report_lost(self, dead: list[Lost]) -> None:
        self.reported += [one.host for one in dead]

    def flush_rows(self) -> None:
        self.saved = list(self.reported)


async def lose_with_their_worker(frontier: Frontier, *hosts: str) -> None:
    """Have a page of each lost with a worker, once too often."""
    await push_all(frontier, [link(host, "/1") for host in hosts])
    for shard in frontier.shards:
        await shard.renew("lost", 1, {})
        await shard.lease("lost", 9)
    await asyncio.sleep(0.01)


async def test_urls_that_were_lost_too_often_are_reported_once_though_the_reply_is_lost(
    redis_server: RedisServer,
) -> None:
    frontier = Frontier(await connect(redis_server.url), CRAWL, "w")
    await frontier.open(Plan(max_attempts=1, seen_capacity=1000), "run")
    await frontier.renew(1000 * TIMEOUT_S, {})
    witness = Witness()
    reclaiming = Reclaiming(frontier, witness, retry_once)
    for host in HOSTS[:2]:
        await lose_with_their_worker(frontier, host)
        frontier.shards[0].client = ReplyLostOnce(frontier.client)
        await reclaiming.bury()
        await reclaiming.bury()
    assert witness.reported == witness.saved == HOSTS[:2]
    await reclaiming.acknowledge()
    assert await frontier.shards[0].leave("w")
    assert not await frontier.client.exists(keys.replies(CRAWL, 0))
    await frontier.close()


async def test_what_a_worker_has_not_reported_when_it_dies_or_leaves_is_reported_by_another(
    redis_server: RedisServer,
) -> None:
    first, other = [Frontier(await connect(redis_server.url), CRAWL, name) for name in "wo"]
    for frontier in (first, other):
        await frontier.open(Plan(max_attempts=1, seen_capacity=1000), "run")
    await first.renew(1000 * TIMEOUT_S, {})

    class Full(Witness):
        def flush_rows(self) -> None:
            raise OSError("no space left")

    await lose_with_their_worker(first, HOSTS[0])
    full, witness = Full(), Witness()
    reclaiming = Reclaiming(first, full, retry_once)
    await reclaiming.bury()
    await reclaiming.bury()
    await reclaiming.acknowledge()
    assert full.reported == HOSTS[:1], "told once, though it cannot be written"
    assert not await first.shards[0].leave("w")
    await Reclaiming(other, witness, retry_once).bury()
    assert witness.reported == HOSTS[:1]
    for frontier in (first, other):
        await frontier.close()


async def test_a_disk_that_hangs_keeps_no_heartbeat_waiting_for_reports_of_lost_urls(
    redis_server: RedisServer,
) -> None:
    frontier = Frontier(await connect(redis_server.url), CRAWL, "w")
    await frontier.open(Plan(max_attempts=1, seen_capacity=1000), "run")
    await frontier.renew(1000 * TIMEOUT_S, {})
    goes_on = threading.Event()

    class Hanging(Witness):
        def flush_rows(self) -> None:
            reported = list(self.reported)
            goes_on.wait(60)
            self.saved = reported

    hanging = Hanging()
    reclaiming = Reclaiming(frontier, hanging, retry_once)
    try:
        for host in HOSTS[:2]:
            await lose_with_their_worker(frontier, host)
            await reclaiming.bury()
            async with asyncio.timeout(5):  # which come between two of these
                await reclaiming.bury()
        assert (hanging.reported, hanging.saved) == (HOSTS[:2], [])
        assert not await frontier.shards[0].leave("w"), "another would be told of them"
    finally:
        goes_on.set()
    await reclaiming.acknowledge()
    assert hanging.saved == HOSTS[:2]
    assert await frontier.shards[0].leave("w")
    await frontier.close()


async def test_a_redis_that_is_away_while_lost_urls_are_reported_is_waited_for(
    redis_server: RedisServer,
) -> None:
    frontier = Frontier(await connect(redis_server.url), CRAWL, "w")
    await frontier.open(Plan(max_attempts=1, seen_capacity=1000), "run")
    await lose_with_their_worker(frontier, HOSTS[0])
    tries: list[None] = []

    class AwayAtFirst(Witness):
        async def report_lost(self, dead: list[Lost]) -> None:
            tries.append(None)
            if len(tries) == 1:
                raise RedisConnectionError
            await super().report_lost(dead)

    witness = AwayAtFirst()
    await Reclaiming(frontier, witness, retry_once).bury()
    assert witness.reported == HOSTS[:1]
    await frontier.close()


async def test_what_a_shard_has_settled_is_not_late_because_another_was_away(
    redis_server: RedisServer,
) -> None:
    frontier = Frontier(await connect(redis_server.url), CRAWL, "w")
    await frontier.open(Plan(shards=3, seen_capacity=1000), "run")
    await push_all(frontier, [link(hosts_of(frontier, number)[0], "/1") for number in range(3)])
    await frontier.renew(1000 * TIMEOUT_S, {})
    leases = [one for shard in frontier.shards for one in (await shard.lease("w", 1)).leases]
    away = frontier.shards[1].client = AwayOnce(frontier.shards[1].client)
    settling = frontier.settling([(one.shard, Settlement(one.token, "done")) for one in leases])
    assert await retry_once(settling) == set()
    counts = await frontier.counts()
    await frontier.close()
    assert away.was_away
    assert (counts["done"], counts.get("late", 0)) == (3, 0)


class ReplyLostOnce(AwayOnce):
    """One whose server does as it is told, and is not heard to have done so."""

    async def evalsha(self, *call: Any) -> Any:
        reply = await self._client.evalsha(*call)
        self._be_away()
        return reply

    async def eval(self, *call: Any) -> Any:
        """The same of a script that the server does not know yet."""
        reply = await self._client.eval(*call)
        self._be_away()
        return reply


@pytest.mark.parametrize("shards", [1, 3])
async def test_what_is_settled_is_not_late_because_the_reply_was_lost(
    redis_server: RedisServer, shards: int
) -> None:
    frontier = Frontier(await connect(redis_server.url), CRAWL, "w")
    await frontier.open(Plan(shards=shards, seen_capacity=1000), "run")
    await push_all(frontier, [link(host, "/1") for host in HOSTS])
    await frontier.renew(1000 * TIMEOUT_S, {})
    leases = (await frontier.lease(100)).leases
    lossy = frontier.shards[-1].client = ReplyLostOnce(frontier.client)
    settled = [(one.shard, Settlement(one.token, "done")) for one in leases]
    settling = frontier.settling(settled, {"Product": 2})
    assert await retry_once(settling) == settling.doubtful == set()
    counts = await frontier.counts()
    await frontier.close()
    assert lossy.was_away
    assert (counts["done"], counts.get("late", 0)) == (len(HOSTS), 0)
    assert counts["items:Product"] == 2


async def test_what_may_have_been_settled_is_not_taken_for_certainly_late(
    redis_server: RedisServer,
) -> None:
    """The shard has forgotten it: the worker was dead meanwhile."""
    frontier = Frontier(await connect(redis_server.url), CRAWL, "w")
    await frontier.open(Plan(seen_capacity=1000), "run")
    await push_all(frontier, [link("http://a", "/1")])
    await frontier.renew(1000 * TIMEOUT_S, {})
    [lease] = (await frontier.shards[0].lease("w", 1)).leases
    settled = [(0, Settlement(lease.token, "done"))]
    frontier.shards[0].client = ReplyLostOnce(frontier.shards[0].client)
    repeated, again = frontier.settling(settled), frontier.settling(settled)
    with pytest.raises(RedisConnectionError):
        await repeated()
    await frontier.client.delete(keys.replies(CRAWL, 0))
    assert await repeated() == repeated.doubtful == {(0, lease.token)}
    assert (await again(), again.doubtful) == ({(0, lease.token)}, set())
    await frontier.close()


async def test_saved_bytes_that_redis_did_not_hear_of_are_told_the_next_time(
    redis_server: RedisServer,
) -> None:
    frontier = Frontier(await connect(redis_server.url), CRAWL, "w")
    await frontier.open(Plan(seen_capacity=1000), "run")
    saved = SavedBytes(frontier)
    frontier.client = AwayOnce(frontier.client)
    saved.add(7)
    with pytest.raises(RedisConnectionError):
        await saved.tell(now=True)
    await saved.tell(now=True)
    counts = await frontier.counts()
    await frontier.close()
    assert counts["saved_bytes"] == 7
