"""Several workers, one crawl: judged by the origin's log, the files and the ledger."""

from __future__ import annotations

import csv
import fcntl
import json
import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from crawlproj.config import Config
from crawlproj.demo import DemoServer, WebSpec
from crawlproj.operate.request_log import fetch_counts, most_concurrent, smallest_gap_s
from crawlproj.worker.join import join
from tests.servers.fleet import DEMO_WEB, Fleet, Worker
from tests.servers.origin import Origin, Reply, Request, Route
from tests.servers.redis import RedisServer, wait_for

SPEC = WebSpec(seed=7, hosts=50, pages=1000, flaky=0.0, slow=0.0)

BROKEN_OFF = re.compile(r"(\d+) requests? broken off")

pytestmark = pytest.mark.demo_web


@pytest.fixture(scope="module")
def big_web() -> Iterator[DemoServer]:
    with DemoServer(SPEC) as server:
        yield server


def pages_fetched(server: DemoServer, since: int = 0) -> dict[str, int]:
    counts = fetch_counts(server.requests()[since:])
    return {url: count for url, count in counts.items() if not url.endswith("/robots.txt")}


@pytest.mark.also_plain
def test_three_workers_fetch_every_page_exactly_once(fleet: Fleet, big_web: DemoServer) -> None:
    before = len(big_web.requests())
    expected = big_web.web.expected(big_web.seeds[:1])
    for _ in range(3):
        fleet.start(seeds=big_web.seeds[0], scope="any", delay=0.05)
    assert fleet.wait() == ["finished"] * 3
    fetched = pages_fetched(big_web, before)
    assert set(fetched) == expected.fetched
    assert set(fetched.values()) == {1}
    fleet.assert_settled()
    now = fleet.status()
    assert now["state"] == "finished"
    assert now["done"] == len(expected.pages | expected.redirects | expected.non_html)
    assert now["dead"] == len(expected.missing)
    assert now["filtered"]["robots"] == len(expected.disallowed)
    assert sorted(fleet.urls()) == sorted(expected.pages | expected.redirects | expected.non_html)
    assert sorted(fleet.urls("failures")) == sorted(expected.missing)
    assert len({row["worker"] for row in fleet.rows("pages")}) == 3


def assert_merged(fleet: Fleet, urls: set[str]) -> None:
    """Every URL is in the merged pages once, in each format."""
    words = ["merge", "site", "--format", "csv,jsonl,parquet", "--sort", "url"]
    assert fleet.command(*words, "-s", f"CRAWL_OUTPUT={fleet.output}").returncode == 0
    folder = fleet.output / "site"
    with (folder / "pages.csv").open(newline="", encoding="utf-8") as file:
        of_csv = [row["url"] for row in csv.DictReader(file)]
    lines = (folder / "pages.jsonl").read_bytes().splitlines()
    of_parquet = duckdb.sql(f"SELECT url FROM read_parquet('{folder}/pages.parquet')").fetchall()
    assert of_csv == sorted(urls)
    assert [json.loads(line)["url"] for line in lines] == of_csv
    assert [url for (url,) in of_parquet] == of_csv


@pytest.mark.also_plain
def test_a_killed_worker_loses_nothing(fleet: Fleet, big_web: DemoServer) -> None:
    before = len(big_web.requests())
    expected = big_web.web.expected(big_web.seeds[:1])
    quick = {"FRONTIER_LEASE_TIMEOUT": "4"}
    workers = [fleet.start(quick, seeds=big_web.seeds[0], scope="any", delay=0.1) for _ in range(3)]
    held = 0
    for pages in (300, 600):
        wait_for(lambda pages=pages: fleet.status()["done"] > pages, f"{pages} pages", 60)
        victim = workers.pop(1)
        about = [w for w in fleet.status()["workers"] if w["pid"] == victim.process.pid]
        victim.kill()
        held += sum(one["leased"] for one in about)
        workers.insert(1, fleet.start(quick, seeds=big_web.seeds[0], scope="any", delay=0.1))
    assert [worker.wait() for worker in workers] == ["finished"] * 3
    fetched = pages_fetched(big_web, before)
    assert set(fetched) == expected.fetched
    fleet.assert_settled()
    repeated = [url for url, count in fetched.items() if count > 1]
    now = fleet.status()
    # A worker that this machine lets wait breaks off what it has begun, and begins it again.
    broken_off = sum(int(count) for w in fleet.workers for count in BROKEN_OFF.findall(w.log))
    assert len(repeated) <= now["reclaimed"] + broken_off
    assert now["reclaimed"] <= held + 2 * 64
    wanted = expected.pages | expected.redirects | expected.non_html
    assert set(fleet.urls()) == wanted
    assert_merged(fleet, wanted)
    assert len(fleet.urls()) - len(wanted) <= now["reclaimed"]


@pytest.mark.also_plain
def test_a_page_limit_is_exact_across_workers(fleet: Fleet, big_web: DemoServer) -> None:
    for _ in range(3):
        fleet.start(seeds=big_web.seeds[0], scope="any", delay=0, pages=500)
    assert fleet.wait() == ["finished"] * 3
    now = fleet.status()
    assert now["done"] == 500 == len(set(fleet.urls())) == len(fleet.urls())
    assert now["filtered"]["page_limit"] > 0
    fleet.assert_settled()


def test_a_host_limit_is_exact_across_workers(fleet: Fleet, big_web: DemoServer) -> None:
    for _ in range(3):
        fleet.start(seeds=",".join(big_web.seeds), delay=0, per_host=4, pages_per_host=7)
    assert fleet.wait() == ["finished"] * 3
    by_host = Counter(url.split("/")[2] for url in fleet.urls())
    assert len(by_host) == SPEC.hosts
    assert set(by_host.values()) == {7}
    assert fleet.status()["filtered"]["host_limit"] > 0
    fleet.assert_settled()


def test_scope_keeps_to_the_seeds_hosts(fleet: Fleet, big_web: DemoServer) -> None:
    expected = big_web.web.expected(big_web.seeds[:3], scope="host")
    for _ in range(2):
        fleet.start(seeds=",".join(big_web.seeds[:3]), delay=0)
    assert fleet.wait() == ["finished"] * 2
    assert set(fleet.urls()) == expected.pages | expected.redirects | expected.non_html
    assert fleet.status()["filtered"]["offsite"] == len(expected.out_of_scope)
    fleet.assert_settled()


@pytest.mark.also_plain
def test_a_time_limit_stops_all_workers_and_the_next_start_resumes(
    fleet: Fleet, big_web: DemoServer
) -> None:
    args = {"seeds": big_web.seeds[0], "scope": "any", "delay": 0.5}
    for _ in range(2):
        fleet.start(**args, minutes=0.06)
    assert fleet.wait() == ["stopped"] * 2
    now = fleet.status()
    assert now["state"] == "stopped"
    assert now["leased"] == 0 < now["queued"]
    assert now["balance"] == 0
    again = fleet.start(**{**args, "delay": 0})
    again.wait_for_log("Resuming the crawl")
    wait_for(lambda: fleet.status()["done"] > now["done"], "more pages")
    fleet.command("stop", "site")
    assert again.wait() == "stopped"
    assert len(fleet.urls()) == len(set(fleet.urls())) == fleet.status()["done"]


def test_sigterm_returns_what_was_leased(fleet: Fleet, big_web: DemoServer) -> None:
    worker = fleet.start(seeds=big_web.seeds[0], scope="any", delay=0.4)
    wait_for(lambda: fleet.status()["done"] > 100, "100 pages", 30)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == "shutdown"
    now = fleet.status()
    assert (now["leased"], now["workers"], now["balance"]) == (0, [], 0)
    assert len(fleet.urls()) == now["done"]


OPENING = """
import asyncio, os
from pathlib import Path
from scrapy import signals

class Opening:
    @classmethod
    def from_crawler(cls, crawler):
        self = cls()
        crawler.signals.connect(self.wait, signals.spider_opened)
        return self

    async def wait(self):
        Path(os.environ["MARK"]).touch()
        while Path(os.environ["MARK"]).exists():
            await asyncio.sleep(0.01)
"""


@pytest.mark.also_plain
def test_a_worker_that_is_told_to_end_while_it_opens_returns_what_it_has_leased(
    fleet: Fleet, big_web: DemoServer
) -> None:
    mark = fleet.folder / "opening"
    (fleet.folder / "opens.py").write_text(OPENING)
    env = {"PYTHONPATH": f"{fleet.folder}:{fleet.env['PYTHONPATH']}", "MARK": str(mark)}
    slowly = {"EXTENSIONS": json.dumps({"opens.Opening": 1})}
    fleet.command("seed", "site", big_web.seeds[0], "--new")
    worker = fleet.start(slowly, env=env)
    wait_for(lambda: mark.exists() and fleet.status()["leased"], "it opens, and has leased", 60)
    worker.signal(signal.SIGINT)
    worker.wait_for_log("The spider is closed as soon as it is open")
    mark.unlink()
    assert worker.wait() == "shutdown"
    now = fleet.status()
    assert (now["state"], now["workers"], now["leased"]) == ("stopped", [], 0)


def waits_or_has_written(worker: Worker) -> bool:
    locks = Path("/proc/locks").read_text().splitlines()
    waiting = {line.split()[5] for line in locks if " -> FLOCK " in line}
    return str(worker.process.pid) in waiting or "Summary in" in worker.log


def test_of_workers_that_leave_together_the_last_to_look_has_written_the_summary(
    fleet: Fleet, big_web: DemoServer
) -> None:
    slow = {"seeds": big_web.seeds[0], "scope": "any", "delay": 0.5}
    writer, other = fleet.start(**slow), fleet.start({"CRAWL_REPORTS": False}, **slow)
    wait_for(lambda: len(fleet.status()["workers"]) == 2, "both workers", 30)
    wait_for(lambda: fleet.status()["done"] > 0, "a page", 30)
    with (fleet.output / "site" / ".lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        writer.signal(signal.SIGINT)
        wait_for(lambda: waits_or_has_written(writer), "one has left", 30)
        other.signal(signal.SIGINT)
        assert other.wait() == "shutdown"
    assert writer.wait() == "shutdown"
    summary = json.loads((fleet.output / "site" / "summary.json").read_text())
    assert summary["state"] == "stopped"


def test_depth_counts_links_from_a_seed_across_workers(fleet: Fleet) -> None:
    # The root comes first, so two links away from it no order of fetching makes a difference.
    spec = WebSpec(seed=5, hosts=6, pages=300).smooth()
    with DemoServer(spec) as web:
        expected = web.web.expected(web.seeds, scope="host", depth=2)
        for _ in range(3):
            fleet.start(seeds=",".join(web.seeds), delay=0, depth=2)
        assert fleet.wait() == ["finished"] * 3
    assert set(fleet.urls()) == expected.pages
    assert {int(row["depth"]) for row in fleet.rows("pages")} == {0, 1, 2}
    assert fleet.status()["filtered"]["depth"] > 0
    fleet.assert_settled()


def test_after_a_finished_crawl_the_next_start_begins_a_new_one(fleet: Fleet) -> None:
    with DemoServer(WebSpec(hosts=2, pages=20).smooth()) as web:
        for greeting in ("Beginning", "Beginning"):
            worker = fleet.start({"CRAWL_RUN_ID": ""}, seeds=web.seeds[0], scope="any", delay=0)
            assert worker.wait() == "finished"
            assert f"{greeting} the crawl" in worker.log
        assert set(fetch_counts(web.requests()).values()) == {2}
    folder = fleet.output / "site"
    assert len(list(folder.glob("pages-*.csv"))) == 1
    assert len(list(folder.glob("earlier-*/pages-*.csv"))) == 1


def test_a_worker_that_joins_keeps_the_pace_and_limits_of_the_crawl(fleet: Fleet) -> None:
    with DemoServer(WebSpec(hosts=2, pages=24).smooth()) as web:
        fleet.start(seeds=",".join(web.seeds), delay=0.6, pages=20)
        wait_for(lambda: fleet.status()["done"] >= 2, "a beginning", 30)
        fleet.start()
        told = fleet.start(delay=0, pages=5, minutes=7)
        assert fleet.wait() == ["finished"] * 3
        assert min(smallest_gap_s(web.requests()).values()) >= 0.6
    assert fleet.status()["done"] == 20
    assert "was begun with delay 0.6, pages 20, minutes without limit and" in told.log
    assert "was begun with" not in fleet.workers[1].log


def test_a_slow_page_is_not_taken_for_a_dead_worker(fleet: Fleet) -> None:
    spec = WebSpec(seed=3, hosts=3, pages=30, slow=0.2, slow_s=6.0, flaky=0.0)
    with DemoServer(spec) as web:
        for _ in range(2):
            fleet.start(
                {"FRONTIER_LEASE_TIMEOUT": "3"},
                seeds=web.seeds[0],
                scope="any",
                delay=0,
                per_host=4,
            )
        assert fleet.wait() == ["finished"] * 2
        counts = fetch_counts(web.requests())
    expected = web.web.expected(web.seeds[:1]).fetched
    assert {url: counts[url] for url in expected} == dict.fromkeys(expected, 1)
    assert fleet.status()["reclaimed"] == 0


def test_workers_wait_while_redis_is_away(tmp_path: Path) -> None:
    spec = WebSpec(seed=9, hosts=12, pages=400, flaky=0.0, slow=0.0)
    (tmp_path / "redis").mkdir()
    redis_server = RedisServer(tmp_path / "redis", "appendonly yes", "appendfsync always")
    with (
        DemoServer(spec) as web,
        redis_server as server,
        Fleet(tmp_path, server.url, settings=DEMO_WEB) as fleet,
    ):
        expected = web.web.expected(web.seeds[:1])
        workers = [fleet.start(seeds=web.seeds[0], scope="any", delay=0.1) for _ in range(2)]
        wait_for(lambda: fleet.status()["done"] > 100, "100 pages", 60)
        server.kill()
        for worker in workers:
            worker.wait_for_log("Redis does not answer")
        server.start()
        assert fleet.wait() == ["finished"] * 2
        assert "Redis answers again" in workers[0].log
        assert set(fleet.urls()) == expected.pages | expected.redirects | expected.non_html
        fleet.assert_settled()


@pytest.mark.parametrize(
    "downloader",
    ["crawlproj.engine.downloader.Downloader", "scrapy.core.downloader.Downloader"],
)
def test_a_worker_has_no_more_requests_under_way_than_it_may(fleet: Fleet, downloader: str) -> None:
    """However many URLs it has in hand."""
    spec = WebSpec(hosts=20, pages=100, latency_s=0.05).smooth()
    with DemoServer(spec) as server:
        settings = {"CONCURRENT_REQUESTS": 3, "DOWNLOADER": downloader, "POLITENESS_PER_HOST": 4}
        worker = fleet.start(settings, seeds=",".join(server.seeds), delay=0, pages=60)
        assert worker.wait() == "finished"
        log = [request._replace(host="all of them") for request in server.requests()]
    assert most_concurrent(log) == {"all of them": 3}


def test_a_worker_that_joins_reads_pages_by_the_plan_of_the_crawl(fleet: Fleet) -> None:
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
        fleet.at_frontier(lambda frontier: join(frontier, planned))
        seeds = map(origin.url, ("/", "/go?other=1", f"/seed?sid={token}"))
        fleet.start({"ROBOTSTXT_OBEY": "False"}, seeds=",".join(seeds))
        assert fleet.wait() == ["finished"]
        assert sorted(one.path for one in origin.requests()) == sorted(routes)
    assert fleet.status()["dead"] == 0


def test_rows_name_no_referer_where_the_crawl_keeps_none(fleet: Fleet) -> None:
    with Origin({"/": Reply(body=b"<a href=/a>x</a>"), "/a": Reply()}) as origin:
        fleet.start({"CRAWL_REFERER": "False"}, seeds=origin.url("/"), delay=0)
        assert fleet.wait(30) == ["finished"]
        rows = {row["url"]: row["referer"] for row in fleet.rows("pages")}
        assert rows == {origin.url("/"): "", origin.url("/a"): ""}


def _chain(request: Request) -> Reply:
    """Page n links to page n + 1."""
    return Reply(body=f"<a href=/{int(request.path[1:]) + 1}>next</a>".encode())


def test_depth_pages_and_pace_can_be_raised_while_the_crawl_runs(fleet: Fleet) -> None:
    with Origin({"/robots.txt": Reply(status=404)}, default=_chain) as origin:
        worker = fleet.start(
            {"FRONTIER_LEASE_TIMEOUT": "2"}, seeds=origin.url("/1"), depth=1, pages=4, stay="true"
        )
        wait_for(lambda: fleet.status()["done"] == 2, "the chain's beginning", 30)
        told = fleet.command("change", "site", "depth=2", "pages=5", "delay=0.01")
        assert (told.returncode, told.stderr) == (0, "")
        assert "pages 5" in told.stdout and "depth 2" in told.stdout
        worker.wait_for_log("The crawl goes by pages 5")
        fleet.command("seed", "site", origin.url("/100"))
        wait_for(lambda: fleet.status()["done"] == 5, "what the higher limits allow", 30)
    wanted = [f"/{number}" for number in (1, 100, 101, 102, 2)]
    assert sorted(entry.path for entry in origin.requests()[1:]) == wanted
    lower = fleet.command("change", "site", "pages=3")
    assert (lower.returncode, lower.stderr) == (2, "pages=3: it is 5, and can only be raised\n")
