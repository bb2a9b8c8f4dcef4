"""One pace per host for the whole fleet, whatever its hosts do: judged by their own log."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from crawlproj.operate.audit import RESOLUTION_S, Limits, audit, read_evidence, smallest_slot_gap_s
from crawlproj.operate.request_log import Logged, fetch_counts, most_concurrent
from tests.servers.fleet import Fleet
from tests.servers.loopback_hosts import LoopbackHost, LoopbackHosts
from tests.servers.origin import Origin
from tests.servers.origin import Reply as Page
from tests.servers.redis import RedisServer, wait_for

HOSTS = 40
PAGES = LoopbackHost.pages
DELAY_S = 0.05
RETRY_AFTER_S = 1
POLITE = {"POLITENESS_BACKOFF": "0.3"}


def make_host(number: int) -> LoopbackHost:
    crawl_delay_s = 0.1 + 0.05 * (number % 9)
    kinds: tuple[dict[str, Any], ...] = (
        {},
        {"latency_s": 0.08},
        {"slow": {"/2": 0.4}},
        {"overloaded": {"/2": RETRY_AFTER_S}},
        {"overloaded": {"/1": 0, "/3": 0}},
    )
    return LoopbackHost(crawl_delay_s, **kinds[number % len(kinds)])


def too_short(web: LoopbackHosts, per_host: int = 1) -> dict[str, tuple[float, float]]:
    """Hosts that were left alone for less than their pause: the pause, and the gap."""
    found = {}
    for host, requests in web.by_host().items():
        gap_s = smallest_slot_gap_s(requests, per_host)
        pause_s = max(DELAY_S, web.hosts[host].crawl_delay_s)
        if gap_s is not None and gap_s < pause_s - RESOLUTION_S:
            found[host] = pause_s, round(gap_s, 4)
    return found


def during_holds(web: LoopbackHosts) -> list[Logged]:
    """Requests that came while their host had asked to be left alone."""
    return [
        later
        for requests in web.by_host().values()
        for one in requests
        if one.status == 503 and (after_s := web.hosts[one.host].overloaded[one.path])
        for later in requests
        if one.end_s < later.start_s < one.end_s + after_s
    ]


def assert_all_fetched(web: LoopbackHosts) -> None:
    """Every page, once more if it was overloaded; robots.txt first and once; nothing private."""
    wanted: Counter[str] = Counter()
    for host, behaviour in web.hosts.items():
        urls = behaviour.paths | set(behaviour.overloaded) | {"/robots.txt"}
        wanted.update(f"http://{host}{path}" for path in urls)
        wanted.update(f"http://{host}{path}" for path in behaviour.overloaded)
    assert fetch_counts(web.log) == wanted
    first = {requests[0].path for requests in web.by_host().values()}
    assert first == {"/robots.txt"}


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_every_host_keeps_its_pace_with_any_number_of_workers(fleet: Fleet, workers: int) -> None:
    with LoopbackHosts([make_host(number) for number in range(HOSTS)]).open() as web:
        for _ in range(workers):
            fleet.start(POLITE, seeds=web.seeds, delay=DELAY_S)
        assert fleet.wait() == ["finished"] * workers
    assert_all_fetched(web)
    assert too_short(web) == {}
    assert max(most_concurrent(web.log).values()) == 1
    assert during_holds(web) == []
    assert fleet.status()["filtered"]["robots"] == HOSTS * PAGES
    fleet.assert_settled()


@pytest.mark.also_plain
def test_each_of_three_connections_keeps_the_pace(fleet: Fleet) -> None:
    pauses_s = [0.1 + 0.05 * (number % 5) for number in range(12)]
    hosts = [LoopbackHost(pause_s, latency_s=0.4, pages=9) for pause_s in pauses_s]
    with LoopbackHosts(hosts).open() as web:
        for _ in range(3):
            fleet.start(POLITE, seeds=web.seeds, delay=DELAY_S, per_host=3)
        assert fleet.wait() == ["finished"] * 3
    assert_all_fetched(web)
    assert too_short(web, per_host=3) == {}
    assert max(most_concurrent(web.log).values()) == 3
    fleet.assert_settled()


# Nobody waits longer than politeness demands, and Redis is not asked more often than needed


def script_calls(redis: Redis) -> int:
    """Calls of scripts that Redis has answered so far, whoever made them."""
    stats: Any = redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))


@pytest.mark.needs_ours
def test_one_worker_reaches_the_rate_that_politeness_allows(fleet: Fleet, redis: Redis) -> None:
    pause_s, hosts = 0.5, 60
    with LoopbackHosts([LoopbackHost(pages=12) for _ in range(hosts)]).open() as web:
        fleet.start(seeds=web.seeds, delay=pause_s)
        wait_for(lambda: len(web.log) >= 3 * hosts, "a steady pace", 30)
        before = len(web.log), script_calls(redis)
        wait_for(lambda: len(web.log) >= 11 * hosts, "some seconds of it", 30)
        after = len(web.log), script_calls(redis)
        assert fleet.wait() == ["finished"]
    requests, calls = (later - sooner for sooner, later in zip(before, after, strict=True))
    rates = [requests_a_second(log) for log in web.by_host().values()]
    # benchmarks.polite has the exact share; here it is enough that no turn is lost.
    assert sum(rates) >= 0.7 * hosts / pause_s
    assert calls < requests


def requests_a_second(log: list[Logged]) -> float:
    return (len(log) - 1) / (log[-1].end_s - log[0].end_s)


def test_a_slow_host_and_a_huge_one_delay_nobody_else(fleet: Fleet, redis: Redis) -> None:
    pause_s, slow, huge = 0.4, LoopbackHost(latency_s=2, pages=50), LoopbackHost(pages=50_000)
    with LoopbackHosts([slow, huge, *(LoopbackHost(pages=8) for _ in range(50))]).open() as web:
        slow_seed, huge_seed, *seeds = web.seeds.split(",")
        fleet.start(seeds=slow_seed, delay=pause_s)
        redis.lpush("site:start_urls", *(huge_seed + path[1:] for path in huge.paths))
        wait_for(lambda: fleet.status()["queued"] > 49_000, "a long queue", 180)
        redis.lpush("site:start_urls", *seeds)
        hosts = list(web.hosts)[2:]
        wait_for(lambda: web.is_crawled(hosts), "all other pages", 30)
        fleet.workers[0].kill()
    log = web.by_host()
    assert all(requests_a_second(log[host][1:]) >= 0.6 / pause_s for host in hosts)


def test_the_rows_of_a_worker_say_the_same_of_its_pace_as_the_log_of_the_origin(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    """A page that takes long to read is written down late, and the next one early."""
    laborious = b"<p>" + b"<a href=/a>a</a><a href=/b>b</a><b>x</b>" * 40_000
    routes = {"/": Page(body=laborious), "/a": Page(body=laborious), "/b": Page()}
    with Origin(routes) as origin, Fleet(tmp_path, redis_server.url) as fleet:
        worker = fleet.start({"ROBOTSTXT_OBEY": "False"}, seeds=origin.url("/"), delay=DELAY_S)
        assert worker.wait() == "finished"
        [part] = (fleet.output / "site").glob("pages-*.csv")
        with part.open(newline="") as rows:
            noted = read_evidence(part.name, rows).requests
        limits = Limits(DELAY_S)
        for log in (origin.requests(), noted):
            [host] = audit(log, limits)
            assert (host.requests, host.broken) == (3, ())
