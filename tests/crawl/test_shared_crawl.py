"""Several workers, one crawl: judged by the origin's log, the files and the ledger."""

from __future__ import annotations

import asyncio
import fcntl
import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlproj.config import Config
from crawlproj.demo import DemoServer, WebSpec
from crawlproj.frontier.frontier import Frontier
from crawlproj.operate.request_log import fetch_counts, most_concurrent, smallest_gap_s
from crawlproj.server.connection import connect
from crawlproj.worker.join import join
from tests.servers.fleet import DEMO_WEB, Fleet, Worker, fleet
from tests.servers.origin import Origin, Reply, Request, Route
from tests.servers.redis import RedisServer, wait_for

SPEC = WebSpec(seed=7, hosts=50, pages=2000, flaky=0.0, slow=0.0)
NAMES = ("queued", "delayed", "leased")


@pytest.fixture(scope="module")
def big_web() -> Iterator[DemoServer]:
    with DemoServer(SPEC) as server:
        yield server


@pytest.fixture
def ships(tmp_path: Path, redis_server: RedisServer) -> Iterator[Fleet]:
    with fleet(tmp_path, redis_server.url, settings=DEMO_WEB) as sailing:
        yield sailing


def pages_fetched(server: DemoServer, since: int = 0) -> dict[str, int]:
    counts = fetch_counts(server.requests()[since:])
    return {url: count for url, count in counts.items() if not url.endswith("/robots.txt")}


def assert_settled(ships: Fleet) -> None:
    now = ships.status()
    assert now["balance"] == 0
    assert [now[name] for name in NAMES] == [0, 0, 0]


def test_three_workers_fetch_every_page_exactly_once(ships: Fleet, big_web: DemoServer) -> None:
    before = len(big_web.requests())
    expected = big_web.web.expected(big_web.seeds[:1])
    for _ in range(3):
        ships.start(seeds=big_web.seeds[0], scope="any", delay=0.05)
    assert ships.wait() == ["finished"] * 3
    fetched = pages_fetched(big_web, before)
    assert set(fetched) == expected.fetched
    assert set(fetched.values()) == {1}
    assert_settled(ships)
    now = ships.status()
    assert now["state"] == "finished"
    assert now["done"] == len(expected.pages | expected.redirects | expected.non_html)
    assert now["dead"] == len(expected.missing)
    assert now["filtered"]["robots"] == len(expected.disallowed)
    assert sorted(ships.urls()) == sorted(expected.pages | expected.redirects | expected.non_html)
    assert sorted(ships.urls("failures")) == sorted(expected.missing)
    assert len({row["worker"] for row in ships.rows("pages")}) == 3


def test_a_killed_worker_loses_nothing(ships: Fleet, big_web: DemoServer) -> None:
    before = len(big_web.requests())
    expected = big_web.web.expected(big_web.seeds[:1])
    quick = {"FRONTIER_LEASE_TIMEOUT": "2"}
    workers = [
        ships.start(quick, seeds=big_web.seeds[0], scope="any", delay=0.05) for _ in range(3)
    ]
    wait_for(lambda: ships.status()["done"] > 300, "300 pages", 60)
    victim = next(w for w in ships.status()["workers"] if w["pid"] == workers[1].process.pid)
    workers[1].kill()
    held = victim["leased"]
    assert [workers[0].wait(), workers[2].wait()] == ["finished"] * 2
    fetched = pages_fetched(big_web, before)
    assert set(fetched) == expected.fetched
    assert_settled(ships)
    repeated = [url for url, count in fetched.items() if count > 1]
    now = ships.status()
    assert len(repeated) <= now["reclaimed"] <= held + 64
    wanted = expected.pages | expected.redirects | expected.non_html
    assert set(ships.urls()) == wanted
    assert len(ships.urls()) - len(wanted) <= now["reclaimed"]


def test_a_page_limit_is_exact_across_workers(ships: Fleet, big_web: DemoServer) -> None:
    for _ in range(3):
        ships.start(seeds=big_web.seeds[0], scope="any", delay=0, pages=500)
    assert ships.wait() == ["finished"] * 3
    now = ships.status()
    assert now["done"] == 500 == len(set(ships.urls())) == len(ships.urls())
    assert now["filtered"]["page_limit"] > 0
    assert_settled(ships)


def test_a_host_limit_is_exact_across_workers(ships: Fleet, big_web: DemoServer) -> None:
    for _ in range(3):
        ships.start(seeds=",".join(big_web.seeds), delay=0, per_host=4, pages_per_host=7)
    assert ships.wait() == ["finished"] * 3
    by_host = Counter(url.split("/")[2] for url in ships.urls())
    assert len(by_host) == SPEC.hosts
    assert set(by_host.values()) == {7}
    assert ships.status()["filtered"]["host_limit"] > 0
    assert_settled(ships)


def test_scope_keeps_to_the_seeds_hosts(ships: Fleet, big_web: DemoServer) -> None:
    expected = big_web.web.expected(big_web.seeds[:3], scope="host")
    for _ in range(2):
        ships.start(seeds=",".join(big_web.seeds[:3]), delay=0)
    assert ships.wait() == ["finished"] * 2
    assert set(ships.urls()) == expected.pages | expected.redirects | expected.non_html
    assert ships.status()["filtered"]["offsite"] == len(expected.out_of_scope)
    assert_settled(ships)


def test_a_time_limit_stops_all_workers_and_the_next_start_resumes(
    ships: Fleet, big_web: DemoServer
) -> None:
    args = {"seeds": big_web.seeds[0], "scope": "any", "delay": 0.5}
    for _ in range(2):
        ships.start(**args, minutes=0.06)
    assert ships.wait() == ["stopped"] * 2
    now = ships.status()
    assert now["state"] == "stopped"
    assert now["leased"] == 0 < now["queued"]
    assert now["balance"] == 0
    again = ships.start(**{**args, "delay": 0})
    again.wait_for_log("Resuming the crawl")
    wait_for(lambda: ships.status()["done"] > now["done"], "more pages")
    ships.command("stop", "site")
    assert again.wait() == "stopped"
    assert len(ships.urls()) == len(set(ships.urls())) == ships.status()["done"]


def test_sigterm_returns_what_was_leased(ships: Fleet, big_web: DemoServer) -> None:
    worker = ships.start(seeds=big_web.seeds[0], scope="any", delay=0.2)
    wait_for(lambda: ships.status()["done"] > 100, "100 pages", 30)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == "shutdown"
    now = ships.status()
    assert (now["leased"], now["workers"], now["balance"]) == (0, [], 0)
    assert len(ships.urls()) == now["done"]


def waits_or_has_written(worker: Worker) -> bool:
    locks = Path("/proc/locks").read_text().splitlines()
    waiting = {line.split()[5] for line in locks if " -> FLOCK " in line}
    return str(worker.process.pid) in waiting or "Summary in" in worker.log


def test_of_workers_that_leave_together_the_last_to_look_has_written_the_summary(
    ships: Fleet, big_web: DemoServer
) -> None:
    slow = {"seeds": big_web.seeds[0], "scope": "any", "delay": 0.5}
    writer, other = ships.start(**slow), ships.start({"CRAWL_REPORTS": False}, **slow)
    wait_for(lambda: len(ships.status()["workers"]) == 2, "both workers", 30)
    wait_for(lambda: ships.status()["done"] > 0, "a page", 30)
    with (ships.output / "site" / ".lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        writer.signal(signal.SIGINT)
        wait_for(lambda: waits_or_has_written(writer), "one has left", 30)
        other.signal(signal.SIGINT)
        assert other.wait() == "shutdown"
    assert writer.wait() == "shutdown"
    summary = json.loads((ships.output / "site" / "summary.json").read_text())
    assert summary["state"] == "stopped"


def test_depth_counts_links_from_a_seed_across_workers(ships: Fleet) -> None:
    # The root comes first, so two links away from it no order of fetching makes a difference.
    spec = WebSpec(seed=5, hosts=6, pages=300).smooth()
    with DemoServer(spec) as web:
        expected = web.web.expected(web.seeds, scope="host", depth=2)
        for _ in range(3):
            ships.start(seeds=",".join(web.seeds), delay=0, depth=2)
        assert ships.wait() == ["finished"] * 3
    assert set(ships.urls()) == expected.pages
    assert {int(row["depth"]) for row in ships.rows("pages")} == {0, 1, 2}
    assert ships.status()["filtered"]["depth"] > 0
    assert_settled(ships)


def test_after_a_finished_crawl_the_next_start_begins_a_new_one(ships: Fleet) -> None:
    with DemoServer(WebSpec(hosts=2, pages=20).smooth()) as web:
        for greeting in ("Beginning", "Beginning"):
            worker = ships.start({"CRAWL_RUN_ID": ""}, seeds=web.seeds[0], scope="any", delay=0)
            assert worker.wait() == "finished"
            assert f"{greeting} the crawl" in worker.log
        assert set(fetch_counts(web.requests()).values()) == {2}
    folder = ships.output / "site"
    assert len(list(folder.glob("pages-*.csv"))) == 1
    assert len(list(folder.glob("earlier-*/pages-*.csv"))) == 1


def test_a_worker_that_joins_keeps_the_pace_and_limits_of_the_crawl(ships: Fleet) -> None:
    with DemoServer(WebSpec(hosts=2, pages=24).smooth()) as web:
        ships.start(seeds=",".join(web.seeds), delay=0.6, pages=20)
        wait_for(lambda: ships.status()["done"] >= 2, "a beginning", 30)
        ships.start()
        told = ships.start(delay=0, pages=5, minutes=7)
        assert ships.wait() == ["finished"] * 3
        assert min(smallest_gap_s(web.requests()).values()) >= 0.6
    assert ships.status()["done"] == 20
    assert "was begun with delay 0.6, pages 20, minutes without limit and" in told.log
    assert "was begun with" not in ships.workers[1].log


def test_a_slow_page_is_not_taken_for_a_dead_worker(ships: Fleet) -> None:
    spec = WebSpec(seed=3, hosts=3, pages=30, slow=0.2, slow_s=4.0, flaky=0.0)
    with DemoServer(spec) as web:
        for _ in range(2):
            ships.start(
                {"FRONTIER_LEASE_TIMEOUT": "1"},
                seeds=web.seeds[0],
                scope="any",
                delay=0,
                per_host=4,
            )
        assert ships.wait() == ["finished"] * 2
        counts = fetch_counts(web.requests())
    expected = web.web.expected(web.seeds[:1]).fetched
    assert {url: counts[url] for url in expected} == dict.fromkeys(expected, 1)
    assert ships.status()["reclaimed"] == 0


def test_workers_wait_while_redis_is_away(tmp_path: Path) -> None:
    spec = WebSpec(seed=9, hosts=12, pages=400, flaky=0.0, slow=0.0)
    (tmp_path / "redis").mkdir()
    redis_server = RedisServer(tmp_path / "redis", "appendonly yes", "appendfsync always")
    with (
        DemoServer(spec) as web,
        redis_server as server,
        fleet(tmp_path, server.url, settings=DEMO_WEB) as ships,
    ):
        expected = web.web.expected(web.seeds[:1])
        workers = [ships.start(seeds=web.seeds[0], scope="any", delay=0.1) for _ in range(2)]
        wait_for(lambda: ships.status()["done"] > 100, "100 pages", 60)
        server.kill()
        for worker in workers:
            worker.wait_for_log("Redis does not answer")
        server.start()
        assert ships.wait() == ["finished"] * 2
        assert "Redis answers again" in workers[0].log
        assert set(ships.urls()) == expected.pages | expected.redirects | expected.non_html
        assert_settled(ships)


@pytest.mark.parametrize(
    "downloader",
    ["crawlproj.engine.downloader.Downloader", "scrapy.core.downloader.Downloader"],
)
def test_a_worker_has_no_more_requests_under_way_than_it_may(ships: Fleet, downloader: str) -> None:
    """However many URLs it has in hand."""
    spec = WebSpec(hosts=20, pages=100, latency_s=0.05).smooth()
    with DemoServer(spec) as server:
        settings = {"CONCURRENT_REQUESTS": 3, "DOWNLOADER": downloader, "POLITENESS_PER_HOST": 4}
        worker = ships.start(settings, seeds=",".join(server.seeds), delay=0, pages=60)
        assert worker.wait() == "finished"
        log = [request._replace(host="all of them") for request in server.requests()]
    assert most_concurrent(log) == {"all of them": 3}


def test_a_worker_that_joins_reads_pages_by_the_plan_of_the_crawl(ships: Fleet) -> None:
    """Not by its own settings: it was told neither of images nor of parameters."""
    token = "9b1deb4d3b7d4bad9bdd2b0d7b3dcb6d"
    routes: dict[str, Route] = {
        "/": Reply(body=b"<img src=/i.png>"),
        "/i.png": Reply(headers={"Content-Type": "image/png"}),
        "/go": Reply(302, {"Location": f"/go?sid={token}"}),
        f"/go?sid={token}": Reply(),
        f"/seed?sid={token}": Reply(),
    }
    planned = Config(media=True, drop_params=("other",), delay_s=0)
    with Origin(routes) as origin:
        asyncio.run(begin(ships.redis_url, planned))
        seeds = map(origin.url, ("/", "/go?other=1", f"/seed?sid={token}"))
        ships.start({"ROBOTSTXT_OBEY": "False"}, seeds=",".join(seeds))
        assert ships.wait() == ["finished"]
        assert sorted(one.path for one in origin.requests()) == sorted(routes)
    assert ships.status()["dead"] == 0


async def begin(redis_url: str, config: Config) -> None:
    """A crawl that nobody works on yet."""
    client = await connect(redis_url)
    await join(Frontier(client, "site", "w"), config)
    await client.aclose()


def test_rows_name_no_referer_where_the_crawl_keeps_none(ships: Fleet) -> None:
    with Origin({"/": Reply(body=b"<a href=/a>x</a>"), "/a": Reply()}) as origin:
        ships.start({"CRAWL_REFERER": "False"}, seeds=origin.url("/"), delay=0)
        assert ships.wait(30) == ["finished"]
        rows = {row["url"]: row["referer"] for row in ships.rows("pages")}
        assert rows == {origin.url("/"): "", origin.url("/a"): ""}


def _chain(request: Request) -> Reply:
    """Page n links to page n + 1."""
    return Reply(body=f"<a href=/{int(request.path[1:]) + 1}>next</a>".encode())


def test_depth_pages_and_pace_can_be_raised_while_the_crawl_runs(ships: Fleet) -> None:
    with Origin({"/robots.txt": Reply(status=404)}, default=_chain) as origin:
        worker = ships.start(
            {"FRONTIER_LEASE_TIMEOUT": "2"}, seeds=origin.url("/1"), depth=1, pages=4, stay="true"
        )
        wait_for(lambda: ships.status()["done"] == 2, "the chain's beginning", 30)
        told = ships.command("change", "site", "depth=2", "pages=5", "delay=0.01")
        assert (told.returncode, told.stderr) == (0, "")
        assert "pages 5" in told.stdout and "depth 2" in told.stdout
        worker.wait_for_log("The crawl goes by pages 5")
        ships.command("seed", "site", origin.url("/100"))
        wait_for(lambda: ships.status()["done"] == 5, "what the higher limits allow", 30)
    wanted = [f"/{number}" for number in (1, 100, 101, 102, 2)]
    assert sorted(entry.path for entry in origin.requests()[1:]) == wanted
    lower = ships.command("change", "site", "pages=3")
    assert (lower.returncode, lower.stderr) == (2, "pages=3: it is 5, and can only be raised\n")
