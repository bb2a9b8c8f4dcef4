"""A crawl on three masters and three replicas while the cluster changes under it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawlproj.demo import DemoServer, WebSpec
from crawlproj.frontier import keys
from crawlproj.operate.request_log import fetch_counts
from tests.servers.cluster import holder, is_master, move_slot, replica_of, slot_of
from tests.servers.fleet import Fleet
from tests.servers.redis import RedisCluster, wait_for

SPEC = WebSpec(seed=8, hosts=12, pages=160, flaky=0.0, slow=0.0)
SHARDED = {"FRONTIER_SHARDS": "5", "FRONTIER_LEASE_TIMEOUT": "60"}
SHARD_0 = keys.meta("site", 0)

pytestmark = pytest.mark.demo_web


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RedisCluster]:
    with RedisCluster(tmp_path / "cluster", masters=3, replicas=1) as processes:
        yield processes


@pytest.fixture
def redis_url(cluster: RedisCluster) -> str:
    """A node that stays, and keeps none of shard 0."""
    return next(node.url for node in cluster.masters if node is not holder(cluster, SHARD_0))


def start_two(fleet: Fleet, web: DemoServer) -> None:
    for number in range(2):
        seeds = {"seeds": web.seeds[0]} if number == 0 else {}
        fleet.start(SHARDED, scope="any", delay=0.2, **seeds)
    wait_for(lambda: is_under_way(fleet.status()), "both are at work", 60)


def is_under_way(now: dict[str, Any]) -> bool:
    return len(now["workers"]) == 2 and now["done"] > 40


def assert_complete(fleet: Fleet, web: DemoServer) -> None:
    expected = web.web.expected(web.seeds[:1])
    now = fleet.status()
    assert (now["state"], now["balance"]) == ("finished", 0)
    assert [now[name] for name in ("queued", "delayed", "leased")] == [0, 0, 0]
    rows = expected.pages | expected.redirects | expected.non_html
    assert set(fleet.urls()) == rows
    assert now["done"] == len(rows)
    assert (now["dead"], now["reasons"]) == (len(expected.missing), {"http_404": now["dead"]})


def test_a_master_dies_and_its_replica_takes_over_and_no_page_is_lost(
    fleet: Fleet, web: DemoServer, cluster: RedisCluster
) -> None:
    victim = holder(cluster, SHARD_0)
    heir = replica_of(cluster, victim)
    start_two(fleet, web)
    victim.kill()
    wait_for(lambda: is_master(heir), "the replica has taken over", 60)
    assert fleet.wait(120) == ["finished"] * 2
    assert all("Redis answers again" in worker.log for worker in fleet.workers)
    assert_complete(fleet, web)


def test_slots_move_to_another_master_and_nobody_notices(
    fleet: Fleet, web: DemoServer, cluster: RedisCluster
) -> None:
    before = len(web.requests())
    source = holder(cluster, SHARD_0)
    target = next(node for node in cluster.masters if node is not source)
    start_two(fleet, web)
    move_slot(cluster, SHARD_0, target)
    assert fleet.wait(120) == ["finished"] * 2
    assert_complete(fleet, web)
    fetched = fetch_counts(web.requests()[before:])
    expected = web.web.expected(web.seeds[:1])
    assert {url: fetched[url] for url in expected.fetched} == dict.fromkeys(expected.fetched, 1)
    with source.client() as client:
        assert client.execute_command("CLUSTER COUNTKEYSINSLOT", slot_of(SHARD_0)) == 0
