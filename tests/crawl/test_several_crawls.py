"""Several crawls of one spider, side by side on one Redis: nothing of one is another's."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from crawlproj.frontier import keys
from tests.servers.fleet import PROJECT, Fleet, Worker
from tests.servers.origin import Origin, Reply
from tests.servers.redis import wait_for

FAST = {"ROBOTSTXT_OBEY": "False"}
LINKS = Reply(body=b"<a href=/1>1</a><a href=/2>2</a>")


@pytest.fixture(scope="module")
def origin() -> Iterator[Origin]:
    with Origin({"/": LINKS, "/gone": Reply(status=404)}, default=Reply()) as serving:
        yield serving


def crawls(ships: Fleet) -> dict[str, dict[str, object]]:
    listed = json.loads(ships.command("crawls", "--json").stdout)
    return {one["crawl"]: one for one in listed}


def test_crawls_of_one_spider_share_neither_plan_nor_seeds_nor_state_nor_files(
    ships: Fleet, redis: Redis, origin: Origin
) -> None:
    docs = ships.start(FAST, crawl="docs", seeds=origin.url("/"), depth=0, delay=0)
    blog = ships.start(FAST, crawl="blog", delay=0)
    wait_for(lambda: ships.status("blog")["workers"], "the second worker", 20)
    pushed = ships.command("seed", "blog", origin.url("/"), origin.url("/gone"), "--new")
    assert (pushed.returncode, pushed.stdout) == (0, "2 new, 0 known already, 0 refused\n")
    assert (docs.wait(30), blog.wait(30)) == ("finished", "finished")
    everywhere = {origin.url(path) for path in ("/", "/1", "/2")}
    assert {row["url"] for row in ships.rows("pages", "docs")} == {origin.url("/")}
    assert {row["url"] for row in ships.rows("pages", "blog")} == everywhere
    assert sorted(path.name for path in ships.output.iterdir()) == ["blog", "docs"]
    listed = crawls(ships)
    assert {name: (one["state"], one["pages"], one["dead"]) for name, one in listed.items()} == {
        "docs": ("finished", 1, 0),
        "blog": ("finished", 3, 1),
    }
    assert {one["spider"] for one in listed.values()} == {"site"}
    shown = ships.command("crawls").stdout.splitlines()
    assert [line.split()[:4] for line in shown] == [
        ["crawl", "spider", "state", "pages"],
        ["blog", "site", "finished", "3"],
        ["docs", "site", "finished", "1"],
    ]
    merged = ships.command("merge", "blog", "--json", "-s", f"CRAWL_OUTPUT={ships.output}")
    assert merged.returncode == 0
    assert (ships.output / "blog" / "pages.csv").exists()
    assert not (ships.output / "docs" / "pages.csv").exists()
    retried = ships.command("dead", "blog", "--retry").stdout
    assert "go on with scrapy crawl site -a crawl=blog" in retried
    assert ships.command("purge", "blog", "--yes").returncode == 0
    assert all(key.startswith((b"docs:", b"{docs:")) for key in redis.scan_iter())
    assert crawls(ships).keys() == {"docs"}


def test_a_fleet_of_a_named_crawl_has_its_folder_and_logs_and_keeps_earlier_ones(
    ships: Fleet, origin: Origin
) -> None:
    for _ in range(2):
        sailed = ships.command(
            *("fleet", "site", "-n", "1", "-a", "crawl=docs", "-a", f"seeds={origin.url('/1')}"),
            *("-s", f"CRAWL_OUTPUT={ships.output}", "-s", "ROBOTSTXT_OBEY=False"),
        )
        assert (sailed.returncode, sailed.stderr) == (0, "")
        assert "Crawl docs is finished" in sailed.stdout
    logs = sorted((ships.output / "docs").glob("worker-1*.log"))
    assert [log.name.startswith("worker-1-until-") for log in logs] == [True, False]
    assert [log.read_text().count("Beginning the crawl 'docs'") for log in logs] == [1, 1]


def test_a_fleet_that_finds_a_finished_crawl_says_that_it_waits_for_seeds(
    ships: Fleet, origin: Origin, tmp_path: Path
) -> None:
    ships.start(FAST, crawl="docs", seeds=origin.url("/1"))
    assert ships.wait() == ["finished"]
    words = ["fleet", "site", "-n", "1", "-a", "crawl=docs", "-s", f"CRAWL_OUTPUT={ships.output}"]
    sailing = Worker(words, ships.env, PROJECT, tmp_path / "fleet.log")
    try:
        waits = "docs has finished: its workers wait for seeds (scrapy seed docs URL)"
        wait_for(lambda: waits in sailing.log, waits, 30)
        sailing.signal(signal.SIGINT)
        sailing.wait()
    finally:
        sailing.kill()


def test_no_crawl_is_a_no_that_says_how_to_begin_one(ships: Fleet) -> None:
    listed = ships.command("crawls")
    assert (listed.returncode, listed.stderr) == (1, "")
    assert "scrapy crawl site -a seeds=" in listed.stdout


def test_a_crawl_that_cannot_be_read_is_listed_with_the_others(ships: Fleet, redis: Redis) -> None:
    redis.hset(keys.meta("broken", 0), "epoch", "1")
    assert crawls(ships)["broken"]["state"] == "damaged"
