"""Several crawls of one spider, side by side on one Redis: nothing of one is another's."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from crawlproj.frontier import keys
from crawlproj.operate.audit import RESOLUTION_S, smallest_slot_gap_s
from crawlproj.operate.request_log import most_concurrent
from tests.servers.fleet import PROJECT, Fleet, Worker
from tests.servers.origin import HANG, Origin, Reply
from tests.servers.redis import wait_for

FAST = {"ROBOTSTXT_OBEY": "False"}
LINKS = Reply(body=b"<a href=/1>1</a><a href=/2>2</a>")


@pytest.fixture(scope="module")
def origin() -> Iterator[Origin]:
    with Origin({"/": LINKS, "/gone": Reply(status=404)}, default=Reply()) as serving:
        yield serving


def crawls(fleet: Fleet) -> dict[str, dict[str, object]]:
    listed = json.loads(fleet.command("crawls", "--json").stdout)
    return {one["crawl"]: one for one in listed}


def test_a_crawl_that_has_only_seeds_is_told_how_to_start(fleet: Fleet, origin: Origin) -> None:
    assert fleet.command("seed", "notes", origin.url("/"), "--new").returncode == 0
    told = fleet.command("status", "notes")
    assert told.returncode == 1
    assert "1 seed waits; start it with scrapy crawl site -a crawl=notes" in told.stdout


def test_all_finished_crawls_are_purged_at_once_and_no_others(
    fleet: Fleet, redis: Redis, origin: Origin
) -> None:
    for name in ("one", "two"):
        assert fleet.start(FAST, crawl=name, seeds=origin.url("/")).wait() == "finished"
    stopped = fleet.start(FAST, crawl="stopped", seeds=origin.url("/"), minutes=0.02, delay=60)
    assert stopped.wait() == "stopped", stopped.log
    assert fleet.command("seed", "two", origin.url("/1")).returncode == 0
    refused = fleet.command("purge", "--finished")
    assert (refused.returncode, "2 finished crawls: one, two; add --yes" in refused.stderr) == (
        2,
        True,
    )
    assert fleet.command("purge", "one", "--finished", "--yes").returncode == 2
    done = fleet.command("purge", "--finished", "--yes")
    assert (done.returncode, done.stdout) == (0, "forgotten: 2 finished crawls: one, two\n")
    assert {name: one["state"] for name, one in crawls(fleet).items()} == {
        "stopped": "stopped",
        "two": "empty",  # the seed is for the next crawl
    }
    assert not [key for key in redis.scan_iter(count=1000) if b"one" in key.split(b":")[0]]
    again = fleet.command("purge", "--finished", "--yes", "--json")
    assert (again.returncode, json.loads(again.stdout)) == (0, {"purged": []})


def test_crawls_of_one_spider_share_neither_plan_nor_seeds_nor_state_nor_files(
    fleet: Fleet, redis: Redis, origin: Origin
) -> None:
    docs = fleet.start(FAST, crawl="docs", seeds=origin.url("/"), depth=0, delay=0)
    blog = fleet.start(FAST, crawl="blog", delay=0)
    wait_for(lambda: fleet.status("blog")["workers"], "the second worker", 20)
    pushed = fleet.command("seed", "blog", origin.url("/"), origin.url("/gone"), "--new")
    assert (pushed.returncode, pushed.stdout) == (0, "2 new, 0 known already, 0 refused\n")
    assert (docs.wait(30), blog.wait(30)) == ("finished", "finished")
    everywhere = {origin.url(path) for path in ("/", "/1", "/2")}
    assert {row["url"] for row in fleet.rows("pages", "docs")} == {origin.url("/")}
    assert {row["url"] for row in fleet.rows("pages", "blog")} == everywhere
    assert sorted(path.name for path in fleet.output.iterdir()) == ["blog", "docs"]
    listed = crawls(fleet)
    assert {name: (one["state"], one["pages"], one["dead"]) for name, one in listed.items()} == {
        "docs": ("finished", 1, 0),
        "blog": ("finished", 3, 1),
    }
    assert {one["spider"] for one in listed.values()} == {"site"}
    shown = fleet.command("crawls").stdout.splitlines()
    assert [line.split()[:4] for line in shown] == [
        ["crawl", "spider", "state", "pages"],
        ["blog", "site", "finished", "3"],
        ["docs", "site", "finished", "1"],
    ]
    merged = fleet.command("merge", "blog", "--json", "-s", f"CRAWL_OUTPUT={fleet.output}")
    assert merged.returncode == 0
    assert (fleet.output / "blog" / "pages.csv").exists()
    assert not (fleet.output / "docs" / "pages.csv").exists()
    retried = fleet.command("dead", "blog", "--retry").stdout
    assert "go on with scrapy crawl site -a crawl=blog" in retried
    assert fleet.command("purge", "blog", "--yes").returncode == 0
    assert all(key.startswith((b"docs:", b"{docs:")) for key in redis.scan_iter())
    assert crawls(fleet).keys() == {"docs"}


def test_a_dead_letter_that_is_queued_again_is_tried_as_often_as_before(fleet: Fleet) -> None:
    settings = {**FAST, "FRONTIER_MAX_ATTEMPTS": "2", "FRONTIER_RETRY_DELAY": "0.01"}
    with Origin({}, default=Reply(status=500)) as broken:
        for times in (2, 4):
            fleet.start(settings, seeds=broken.url("/"))
            assert fleet.wait()[-1] == "finished"
            assert broken.times_asked("/") == times
            fleet.command("dead", "site", "--retry")


def test_a_fleet_of_a_named_crawl_has_its_folder_and_logs_and_keeps_earlier_ones(
    fleet: Fleet, origin: Origin
) -> None:
    for _ in range(2):
        ended = fleet.command(
            *("fleet", "site", "-n", "1", "-a", "crawl=docs", "-a", f"seeds={origin.url('/1')}"),
            *("-s", f"CRAWL_OUTPUT={fleet.output}", "-s", "ROBOTSTXT_OBEY=False"),
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "Crawl docs is finished" in ended.stdout
    logs = sorted((fleet.output / "docs").glob("worker-1*.log"))
    assert [log.name.startswith("worker-1-until-") for log in logs] == [True, False]
    assert [log.read_text().count("Beginning the crawl 'docs'") for log in logs] == [1, 1]


def test_a_fleet_that_finds_a_finished_crawl_says_that_it_waits_for_seeds(
    fleet: Fleet, origin: Origin, tmp_path: Path
) -> None:
    fleet.start(FAST, crawl="docs", seeds=origin.url("/1"))
    assert fleet.wait() == ["finished"]
    words = ["fleet", "site", "-n", "1", "-a", "crawl=docs", "-s", f"CRAWL_OUTPUT={fleet.output}"]
    waiting = Worker(words, fleet.env, PROJECT, tmp_path / "fleet.log")
    try:
        waits = "docs has finished: its workers wait for seeds (scrapy seed docs URL)"
        wait_for(lambda: waits in waiting.log, waits, 30)
        waiting.signal(signal.SIGINT)
        waiting.wait()
    finally:
        waiting.kill()


def test_what_is_leased_is_listed_apart_from_what_is_queued(fleet: Fleet) -> None:
    with Origin({"/": LINKS, "/robots.txt": Reply(404)}, default=HANG) as slow:
        fleet.start(FAST, seeds=slow.url("/"), delay=0)
        wait_for(lambda: fleet.status()["leased"] == 1 and fleet.status()["done"] == 1, "a lease")
        wait_for(lambda: fleet.status()["queued"] == 1, "the other link")
        listed = crawls(fleet)["site"]
        assert (listed["pages"], listed["queued"], listed["leased"]) == (1, 1, 1)
        head = fleet.command("crawls").stdout.splitlines()[0].split()
        assert head[3:8] == ["pages", "queued", "leased", "dead", "workers"]


def test_no_crawl_is_a_no_that_says_how_to_begin_one(fleet: Fleet) -> None:
    listed = fleet.command("crawls")
    assert (listed.returncode, listed.stderr) == (1, "")
    assert "scrapy crawl site -a seeds=" in listed.stdout


def test_a_crawl_that_cannot_be_read_is_listed_with_the_others(fleet: Fleet, redis: Redis) -> None:
    redis.hset(keys.meta("broken", 0), "epoch", "1")
    assert crawls(fleet)["broken"]["state"] == "damaged"


def test_a_crawl_that_only_has_seeds_waiting_is_listed_as_empty(fleet: Fleet, redis: Redis) -> None:
    redis.lpush(keys.start_urls("later"), "http://127.0.0.1:1/")
    [(name, listed)] = crawls(fleet).items()
    assert (name, listed["state"], listed["pages"]) == ("later", "empty", 0)
    assert listed["spider"] == ""


def test_crawls_that_share_their_pace_ask_a_host_no_faster_than_one(fleet: Fleet) -> None:
    """By the origin's own log, which does not know who asked."""
    delay_s, pages = 0.2, 6
    links = "".join(f"<a href=/{number}>{number}</a>" for number in range(1, pages))
    with Origin({"/": Reply(body=links.encode())}, default=Reply()) as shared:
        for crawl in ("docs", "blog"):
            settings = {**FAST, "POLITENESS_SHARED": "True"}
            fleet.start(settings, crawl=crawl, seeds=shared.url("/"), delay=delay_s)
        assert fleet.wait() == ["finished", "finished"]
        log = shared.requests()
    assert len(log) == 2 * pages
    assert set(most_concurrent(log).values()) == {1}
    gap_s = smallest_slot_gap_s(log)
    assert gap_s is not None and gap_s >= delay_s - RESOLUTION_S
    for crawl in ("docs", "blog"):
        assert (fleet.status(crawl)["done"], fleet.status(crawl)["balance"]) == (pages, 0)
