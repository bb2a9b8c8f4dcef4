"""A crawl on a Redis Cluster: five shards on three masters, named by one of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlproj.demo import DemoServer, WebSpec
from crawlproj.operate.request_log import fetch_counts
from tests.servers.fleet import DEMO_WEB, Fleet, fleet
from tests.servers.redis import RedisCluster, wait_for

SPEC = WebSpec(seed=6, hosts=12, pages=240, flaky=0.0, slow=0.0)
SHARDED = {"FRONTIER_SHARDS": "5"}


@pytest.fixture(scope="module")
def web() -> Iterator[DemoServer]:
    with DemoServer(SPEC) as server:
        yield server


@pytest.fixture
def ships(tmp_path: Path, redis_cluster: RedisCluster) -> Iterator[Fleet]:
    with fleet(tmp_path, redis_cluster.url, settings=DEMO_WEB) as sailing:
        yield sailing


def all_keys(cluster: RedisCluster) -> dict[int, set[str]]:
    """Every key of the cluster, by the master that holds it."""
    found = {}
    for number, node in enumerate(cluster.masters):
        with node.client() as client:
            found[number] = {key.decode() for key in client.scan_iter(count=1000)}
    return found


def test_three_workers_fetch_every_page_once_across_shards(
    ships: Fleet, web: DemoServer, redis_cluster: RedisCluster
) -> None:
    before = len(web.requests())
    for number in range(3):
        seeds = {"seeds": web.seeds[0]} if number == 0 else {}
        ships.start(SHARDED, scope="any", delay=0, **seeds)
    assert ships.wait(60) == ["finished"] * 3
    expected = web.web.expected(web.seeds[:1])
    fetched = fetch_counts(web.requests()[before:])
    assert {url: fetched[url] for url in expected.fetched} == dict.fromkeys(expected.fetched, 1)
    assert sorted(ships.urls()) == sorted(expected.pages | expected.redirects | expected.non_html)
    shown = ships.command("status", "site", "--json")
    now = json.loads(shown.stdout)
    assert (now["state"], now["balance"], now["hosts"]) == ("finished", 0, SPEC.hosts)
    assert now["done"] == len(ships.urls())
    held = all_keys(redis_cluster)
    assert all(held.values())
    names = set().union(*held.values())
    assert {name.partition("}")[0] for name in names} == {f"{{site:{n}" for n in range(5)}


def test_a_page_limit_is_exact_across_shards(ships: Fleet, web: DemoServer) -> None:
    for _ in range(3):
        ships.start(SHARDED, seeds=web.seeds[0], scope="any", delay=0, pages=77)
    assert ships.wait(60) == ["finished"] * 3
    now = ships.status()
    assert now["done"] == 77 == len(set(ships.urls())) == len(ships.urls())
    assert (now["balance"], now["queued"], now["leased"]) == (0, 0, 0)


def test_the_commands_work_on_a_cluster(
    ships: Fleet, web: DemoServer, redis_cluster: RedisCluster
) -> None:
    worker = ships.start(SHARDED, seeds=",".join(web.seeds[:6]), delay=3)
    wait_for(lambda: ships.status()["done"] > 3, "some pages", 30)
    assert ships.command("seed", "site", web.seeds[7], "nonsense").returncode == 1
    worker.wait_for_log("Took in 1 seed")
    assert ships.command("pause", "site").returncode == 0
    assert ships.command("resume", "site").returncode == 0
    assert ships.command("purge", "site", "--yes").returncode == 1
    assert ships.command("stop", "site").returncode == 0
    assert worker.wait(30) == "stopped"
    now = ships.status()
    assert (now["state"], now["leased"], now["balance"]) == ("stopped", 0, 0)
    told = json.loads(ships.command("why", "site", web.seeds[0], "--json").stdout)
    assert told["state"] in ("done", "seen")
    doctor = json.loads(ships.command("doctor", "--json", "--dns", "localhost").stdout)
    assert [check["level"] for check in doctor["checks"] if check["about"] == "redis"] == ["ok"] * 3
    assert ships.command("purge", "site", "--yes").returncode == 0
    assert all_keys(redis_cluster) == {0: set(), 1: set(), 2: set()}


def test_dead_letters_of_every_shard_are_tried_again(ships: Fleet, web: DemoServer) -> None:
    worker = ships.start(SHARDED, seeds=web.seeds[0], scope="any", delay=0)
    assert worker.wait(60) == "finished"
    missing = web.web.expected(web.seeds[:1]).missing
    shown = json.loads(ships.command("dead", "site", "--json").stdout)
    assert {letter["url"] for letter in shown["letters"]} == missing
    assert ships.command("dead", "site", "--retry").stdout.startswith(f"{len(missing)} queued")
    before = len(web.requests())
    assert ships.start({"CRAWL_RUN_ID": ""}).wait(60) == "finished"
    fetched = fetch_counts(web.requests()[before:])
    assert {url for url in fetched if not url.endswith("/robots.txt")} == missing
    now = ships.status()
    assert (now["state"], now["dead"], now["balance"]) == ("finished", len(missing), 0)
