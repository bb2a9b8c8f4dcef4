"""A Redis that is short of memory: links wait, pages go on, nothing is lost or fetched twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from crawlproj.demo import DemoServer, WebSpec
from crawlproj.operate.request_log import fetch_counts
from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply
from tests.servers.redis import RedisServer, wait_for

HUBS, LEAVES = 4, 125
LONG = "x" * 1500
WAITS = "new link(s) wait"


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """One of its own: these tests change its limits."""
    with RedisServer(tmp_path / "redis") as server:
        yield server


def _page(*paths: str) -> Reply:
    return Reply(body="".join(f'<a href="{path}">.</a>' for path in paths).encode())


def _hubs() -> dict[str, Reply]:
    """A seed, some hubs, and behind each hub many leaves with long names."""
    routes = {"/": _page(*(f"/hub{number}" for number in range(HUBS)))}
    for hub in range(HUBS):
        leaves = [f"/{hub}-{number}-{LONG}" for number in range(LEAVES)]
        routes[f"/hub{hub}"] = _page(*leaves)
        routes |= {leaf: _page("/") for leaf in leaves}
    return routes


def test_a_frontier_that_does_not_fit_at_once_is_crawled_to_the_end(
    fleet: Fleet, redis: Redis
) -> None:
    less_than_the_leaves_take = 500_000
    small_filter = {"SEEN_CAPACITY": 5000}
    with Origin({**_hubs(), "/alone": _page()}) as origin:
        # What scripts, connections and buffers take is there after a first crawl.
        first = {**small_filter, "CRAWL_OUTPUT": fleet.folder / "first", "CRAWL_RUN_ID": "first"}
        assert fleet.start(first, seeds=origin.url("/alone")).wait() == "finished"
        used = redis.info("memory")["used_memory"]
        redis.config_set("maxmemory", used + less_than_the_leaves_take)
        worker = fleet.start(small_filter, seeds=origin.url("/"), delay=0, per_host=8)
        assert worker.wait(180) == "finished"
        fetched = fetch_counts(origin.requests())
    pages = {origin.url(path) for path in _hubs()}
    assert {url: count for url, count in fetched.items() if url in pages} == dict.fromkeys(pages, 1)
    assert sorted(fleet.urls()) == sorted(pages)
    assert WAITS in worker.log
    assert "config set maxmemory" in worker.log
    now = fleet.status()
    assert (now["done"], now["dead"], now["balance"]) == (len(pages), 0, 0)


def test_a_redis_that_is_full_says_so_and_goes_on_when_it_is_given_more(
    fleet: Fleet, redis: Redis
) -> None:
    with DemoServer(WebSpec(hosts=4, pages=300, latency_s=0.02).smooth()) as web:
        worker = fleet.start(
            {"FRONTIER_BACKLOG": 100, "FRONTIER_LEASE_TIMEOUT": 2},
            seeds=",".join(web.seeds),
            delay=0,
            per_host=4,
        )
        wait_for(lambda: fleet.status()["done"] >= 10, "pages are done", 60)
        redis.config_set("maxmemory", 1_000_000)
        worker.wait_for_log(WAITS, 60)
        wait_for(lambda: fleet.status()["memory"]["waiting"], "the worker tells of links", 60)
        shown = fleet.command("status", "site").stdout
        assert WAITS in shown and "redis-cli config set maxmemory 2mb" in shown
        fleet.start()
        wait_for(lambda: len(fleet.status()["workers"]) == 2, "another worker joins", 60)
        assert fleet.status()["balance"] == 0
        redis.config_set("maxmemory", 100_000_000)
        assert fleet.wait(120) == ["finished"] * 2
        fetched = fetch_counts(web.requests())
        expected = web.web.expected(web.seeds).pages
    assert "Redis has room again" in worker.log
    assert {url: fetched.get(url) for url in expected} == dict.fromkeys(expected, 1)
    assert sorted(fleet.urls()) == sorted(expected)


def test_a_worker_that_is_stopped_while_links_wait_returns_their_pages(
    fleet: Fleet, redis: Redis
) -> None:
    with DemoServer(WebSpec(hosts=4, pages=200, latency_s=0.02).smooth()) as web:
        worker = fleet.start(seeds=",".join(web.seeds), delay=0, per_host=4)
        wait_for(lambda: fleet.status()["done"] >= 10, "pages are done", 60)
        redis.config_set("maxmemory", 1_000_000)
        worker.wait_for_log(WAITS, 60)
        assert fleet.command("stop", "site").returncode == 0
        assert worker.wait(60) in ("stopped", "shutdown")
        now = fleet.status()
        assert (now["leased"], now["balance"]) == (0, 0)
        redis.config_set("maxmemory", 0)
        assert fleet.start().wait(120) == "finished"
        expected = web.web.expected(web.seeds).pages
    assert set(fleet.urls()) == set(expected)
