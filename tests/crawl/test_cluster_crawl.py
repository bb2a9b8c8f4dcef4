"""A crawl on a Redis Cluster: five shards on three masters, named by one of them."""

from __future__ import annotations

import json

import pytest

from crawlproj.demo import DemoServer, WebSpec
from crawlproj.operate.request_log import fetch_counts
from tests.servers.fleet import Fleet
from tests.servers.redis import RedisCluster, wait_for

SPEC = WebSpec(seed=6, hosts=12, pages=240, flaky=0.0, slow=0.0)
SHARDED = {"FRONTIER_SHARDS": "5"}

pytestmark = pytest.mark.demo_web


@pytest.fixture
def redis_url(redis_cluster: RedisCluster) -> str:
    return redis_cluster.url


def all_keys(cluster: RedisCluster) -> dict[int, set[str]]:
    """Every key of the cluster, by the master that holds it."""
    found = {}
    for number, node in enumerate(cluster.masters):
        with node.client() as client:
            found[number] = {key.decode() for key in client.scan_iter(count=1000)}
    return found


def test_three_workers_fetch_every_page_once_across_shards(
    fleet: Fleet, web: DemoServer, redis_cluster: RedisCluster
) -> None:
    before = len(web.requests())
    for number in range(3):
        seeds = {"seeds": web.seeds[0]} if number == 0 else {}
        fleet.start(SHARDED, scope="any", delay=0, **seeds)
    assert fleet.wait(60) == ["finished"] * 3
    expected = web.web.expected(web.seeds[:1])
    fetched = fetch_counts(web.requests()[before:])
    assert {url: fetched[url] for url in expected.fetched} == dict.fromkeys(expected.fetched, 1)
    assert sorted(fleet.urls()) == sorted(expected.pages | expected.redirects | expected.non_html)
    shown = fleet.command("status", "site", "--json")
    now = json.loads(shown.stdout)
    assert (now["state"], now["balance"], now["hosts"]) == ("finished", 0, SPEC.hosts)
    assert now["done"] == len(fleet.urls())
    held = all_keys(redis_cluster)
    assert all(held.values())
    names = set().union(*held.values())
    assert {name.partition("}")[0] for name in names} == {f"{{site:{n}" for n in range(5)}


def test_a_page_limit_is_exact_across_shards(fleet: Fleet, web: DemoServer) -> None:
    for _ in range(3):
        fleet.start(SHARDED, seeds=web.seeds[0], scope="any", delay=0, pages=77)
    assert fleet.wait(60) == ["finished"] * 3
    now = fleet.status()
    assert now["done"] == 77 == len(set(fleet.urls())) == len(fleet.urls())
    assert (now["balance"], now["queued"], now["leased"]) == (0, 0, 0)


def test_the_commands_work_on_a_cluster(
    fleet: Fleet, web: DemoServer, redis_cluster: RedisCluster
) -> None:
    worker = fleet.start(SHARDED, seeds=",".join(web.seeds[:6]), delay=3)
    wait_for(lambda: fleet.status()["done"] > 3, "some pages", 30)
    assert fleet.command("seed", "site", web.seeds[7], "nonsense").returncode == 1
    worker.wait_for_log("Took in 1 seed")
    assert fleet.command("pause", "site").returncode == 0
    assert fleet.command("resume", "site").returncode == 0
    assert fleet.command("purge", "site", "--yes").returncode == 1
    assert fleet.command("stop", "site").returncode == 0
    assert worker.wait(30) == "stopped"
    now = fleet.status()
    assert (now["state"], now["leased"], now["balance"]) == ("stopped", 0, 0)
    told = json.loads(fleet.command("why", "site", web.seeds[0], "--json").stdout)
    assert told["state"] in ("done", "seen")
    doctor = json.loads(fleet.command("doctor", "--json", "--dns", "localhost").stdout)
    assert [check["level"] for check in doctor["checks"] if check["about"] == "redis"] == ["ok"] * 3
    assert fleet.command("purge", "site", "--yes").returncode == 0
    assert all_keys(redis_cluster) == {0: set(), 1: set(), 2: set()}


def test_dead_letters_of_every_shard_are_tried_again(fleet: Fleet, web: DemoServer) -> None:
    worker = fleet.start(SHARDED, seeds=web.seeds[0], scope="any", delay=0)
    assert worker.wait(60) == "finished"
    missing = web.web.expected(web.seeds[:1]).missing
    shown = json.loads(fleet.command("dead", "site", "--json").stdout)
    assert {letter["url"] for letter in shown["letters"]} == missing
    assert fleet.command("dead", "site", "--retry").stdout.startswith(f"{len(missing)} queued")
    before = len(web.requests())
    assert fleet.start({"CRAWL_RUN_ID": ""}).wait(60) == "finished"
    fetched = fetch_counts(web.requests()[before:])
    assert {url for url in fetched if not url.endswith("/robots.txt")} == missing
    now = fleet.status()
    assert (now["state"], now["dead"], now["balance"]) == ("finished", len(missing), 0)
