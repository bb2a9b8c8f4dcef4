"""What a failover may swallow: replicas are waited for, a loss is noticed, knowledge is renewed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Push, Settlement
from crawlproj.frontier.outcomes import Attempt
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.replication import ReplicasBehind, Replication
from crawlproj.server.connection import connect
from crawlproj.worker.exchange import Worker
from crawlproj.worker.hooks import Hooks
from tests.contract.shared_crawl import done
from tests.lua.helpers import CRAWL, A, B, link, paths
from tests.servers.cluster import cut_off, depose
from tests.servers.frontier import push_all
from tests.servers.redis import RedisCluster, RedisServer, until, wait_for

META = keys.meta(CRAWL, 0)
PUSH = [link(A, "/1"), link(A, "/2")]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RedisCluster]:
    with RedisCluster(tmp_path, masters=1, replicas=1) as processes:
        yield processes


@asynccontextmanager
async def joined(
    server: RedisCluster | RedisServer, wanted: int | None = None, timeout_s: float = 5.0
) -> AsyncIterator[Frontier]:
    client = await connect(server.url)
    frontier = Frontier(client, CRAWL, "w", replication=Replication(client, wanted, timeout_s))
    try:
        await frontier.open(Plan(per_host=9, seen_capacity=1000), "run")
        await frontier.renew(1_000_000, {})
        await frontier.warm()
        yield frontier
    finally:
        await frontier.close()


async def pushed(frontier: Frontier, pushes: list[Push] = PUSH) -> bool:
    """Push them; whether they are kept."""
    await push_all(frontier, pushes)
    return await frontier.wait_for_replicas(frontier.shards[0])


def numbers(node: RedisServer) -> bytes | None:
    """The last push that a node has, a replica too."""
    with node.client() as client:
        client.execute_command("READONLY")
        return client.hget(META, "push:w")


async def test_a_push_is_kept_when_the_replica_has_it(cluster: RedisCluster) -> None:
    async with joined(cluster) as frontier:
        for number in range(1, 20):
            assert await pushed(frontier, [link(A, f"/{number}")])
            assert numbers(cluster.replicas[0]) == str(number).encode()


@pytest.mark.parametrize("wanted", [None, 1])
async def test_a_push_that_the_replica_does_not_take_is_said_and_not_kept(
    cluster: RedisCluster, wanted: int | None
) -> None:
    async with joined(cluster, wanted, timeout_s=0.2) as frontier:
        cluster.replicas[0].pause()
        with pytest.raises(ReplicasBehind, match=r"0 of 1 replica\(s\) of shard 0"):
            await pushed(frontier)
        cluster.replicas[0].resume()
        assert await frontier.wait_for_replicas(frontier.shards[0])


async def test_where_no_replica_is_attached_one_is_not_waited_for_unless_it_is_demanded(
    cluster: RedisCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.replicas[0].kill()
    master = cluster.masters[0]
    wait_for(lambda: "connected_slaves:0" in master.cli("info", "replication"), "alone", 60)
    async with joined(cluster) as frontier:
        assert await pushed(frontier)
        assert await pushed(frontier, [link(B, "/")])
    async with joined(cluster, wanted=1, timeout_s=0.05) as frontier:
        with pytest.raises(ReplicasBehind):
            await pushed(frontier, [link(B, "/2")])
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    port = cluster.masters[0].port
    assert said == [f"The Redis at 127.0.0.1:{port} has no replica: links there are kept once only"]


async def test_a_single_redis_is_waited_for_when_it_is_asked_for(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    def numbers_of(replica: RedisServer) -> bytes | None:
        with replica.client() as client:
            return client.hget(META, "push:w")

    async with joined(redis_server) as frontier:
        assert await pushed(frontier)
    async with joined(redis_server, wanted=1, timeout_s=0.05) as frontier:
        with pytest.raises(ReplicasBehind):
            await pushed(frontier)
        config = f"replicaof 127.0.0.1 {redis_server.port}"
        with RedisServer(tmp_path, config, "repl-diskless-sync-delay 0") as replica:
            wait_for(lambda: numbers_of(replica) is not None, "the replica is in step", 60)
            wait_for(lambda: "state=online" in redis_server.cli("info"), "it is attached", 60)
            frontier.replication = Replication(frontier.client, 1, 5.0)
            assert await pushed(frontier, [link(B, "/")])


async def test_a_push_that_a_failover_took_back_is_known_to_be_lost(cluster: RedisCluster) -> None:
    master, replica = cluster.masters[0], cluster.replicas[0]

    async with joined(cluster) as frontier:
        assert await pushed(frontier)
        cut_off(master, replica)
        await push_all(frontier, [link(B, "/")])
        await asyncio.to_thread(depose, master, replica)
        await frontier.counts()  # by which the client learns who is master now
        assert not await frontier.wait_for_replicas(frontier.shards[0])
        assert await pushed(frontier, [link(B, "/")])
        assert (await frontier.counts())["discovered"] == 3


async def test_tokens_that_a_failover_forgot_are_not_given_to_the_same_worker_again(
    cluster: RedisCluster,
) -> None:
    master, replica = cluster.masters[0], cluster.replicas[0]

    async with joined(cluster) as frontier:
        assert await pushed(frontier)
        cut_off(master, replica)
        (forgotten,) = (await frontier.lease(1)).leases
        await asyncio.to_thread(depose, master, replica)
        batch = await frontier.lease(1)
        assert paths(batch) == ["/1"]
        assert await done(frontier, [forgotten]) == 1  # it comes late
        assert await done(frontier, batch.leases) == 0
        assert paths(await frontier.lease(9)) == ["/2"]


class WithoutScrapy(Hooks):
    """Hooks without Scrapy: the worker leases, and a test tells what it found."""

    def __init__(self, frontier: Frontier) -> None:
        self.failed: list[Exception] = []
        self.worker = Worker(frontier, self, connections=4, lease_timeout_s=60)

    async def judge(self, ended: Attempt) -> tuple[int, Settlement]:
        return ended.lease.shard, Settlement(ended.lease.token, "done")

    def give_up(self, error: Exception) -> None:
        self.failed.append(error)


async def test_a_worker_forgets_what_the_former_master_had_seen_though_it_was_never_away(
    cluster: RedisCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Redirections hide a failover that is over before anybody loses patience."""
    master, replica = cluster.masters[0], cluster.replicas[0]
    lost = link(B, "/lost")

    with caplog.at_level(logging.INFO):
        async with joined(cluster, wanted=0) as frontier:
            worker = WithoutScrapy(frontier).worker
            await worker.start()
            cut_off(master, replica)
            await push_all(frontier, [lost])
            worker.known_links.add(lost.host, "/lost")
            assert worker.count_if_seen(lost.host, lost.key)
            await asyncio.to_thread(depose, master, replica)
            await until(
                lambda: (lost.host, "/lost") not in worker.known_links, "the memo is cleared"
            )
            await until(lambda: not frontier.is_stale, "the replica is warm again")
            assert not worker.count_if_seen(lost.host, lost.key)
            await worker.push_now([lost])
            await until(lambda: worker.take() is not None, "it is there again")
            await worker.close()
    said = [
        record.getMessage()
        for record in caplog.records
        if record.name == "crawlproj.worker.exchange"
    ]
    assert said[0] == "Another server keeps the frontier now: learning anew what it has"


async def test_a_page_is_settled_only_when_the_replica_has_its_links(
    cluster: RedisCluster, caplog: pytest.LogCaptureFixture
) -> None:
    replica = cluster.replicas[0]

    async with joined(cluster, timeout_s=0.2) as frontier:
        worker = WithoutScrapy(frontier).worker
        await worker.start()
        await worker.push_now([link(A, "/page")])
        await until(lambda: not worker.is_idle, "a lease")
        page = worker.take()
        replica.pause()
        worker.push(link(B, "/found"))
        assert page is not None
        worker.end(Attempt(page))
        await until(lambda: "have the latest links" in caplog.text, "it is said")
        tried = frontier.shards[0].calls
        await until(lambda: frontier.shards[0].calls > tried + 3, "it is tried again")
        assert caplog.text.count("have the latest links") == 1
        assert "done" not in await frontier.counts()
        assert page in await frontier.held_leases()
        replica.resume()
        while not (await frontier.counts()).get("done"):
            await asyncio.sleep(0.01)
        await worker.close()


async def test_what_a_failover_took_back_between_push_and_settlement_is_pushed_again(
    cluster: RedisCluster, caplog: pytest.LogCaptureFixture
) -> None:
    master, replica = cluster.masters[0], cluster.replicas[0]

    async with joined(cluster, wanted=1, timeout_s=0.2) as frontier:
        worker = WithoutScrapy(frontier).worker
        await worker.start()
        cut_off(master, replica)
        worker.push(link(B, "/found"))
        await until(lambda: "have the latest links" in caplog.text, "it is said")
        await asyncio.to_thread(depose, master, replica)
        await until(lambda: "pushing again" in caplog.text, "it is noticed")
        await until(lambda: worker.take() is not None, "it is there again")
        assert (await frontier.counts())["discovered"] == 1
        await worker.close()


async def test_a_redis_that_wants_more_replicas_is_waited_for(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        async with joined(redis_server) as frontier:
            alone = WithoutScrapy(frontier)
            await alone.worker.start()
            redis_server.cli("config", "set", "min-replicas-to-write", "1")
            alone.worker.push(link(A, "/"))
            await until(lambda: "NOREPLICAS" in caplog.text, "it is said")
            redis_server.cli("config", "set", "min-replicas-to-write", "0")
            await until(lambda: alone.worker.take() is not None, "it is there")
            assert alone.failed == []
            await alone.worker.close()
    finally:
        redis_server.cli("config", "set", "min-replicas-to-write", "0")
