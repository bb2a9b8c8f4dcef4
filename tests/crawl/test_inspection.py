"""The commands that look into a crawl and its surroundings: dead, why, doctor."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from crawlproj.frontier import keys
from crawlproj.output.merge import merge
from tests.crawl.command_line import assert_one_line, in_output, json_of
from tests.servers.fleet import Fleet
from tests.servers.origin import HANG, Origin, Reply, Route
from tests.servers.redis import RedisServer, wait_for

# Dead letters


@pytest.fixture
def flaky_site() -> Iterator[Origin]:
    """A site of three pages that are there on the second day."""
    days = {"now": 1}

    def later(request: Any) -> Reply:
        return Reply(status=404 if days["now"] == 1 else 200)

    links = b"<a href=/a>a</a><a href=/b>b</a><a href=/gone>g</a>"
    routes: dict[str, Route] = {
        "/": Reply(body=links),
        "/a": later,
        "/b": later,
        "/gone": Reply(status=410),
    }
    with Origin(routes) as origin:
        origin.days = days  # type: ignore[attr-defined]
        yield origin


@pytest.fixture
def with_dead(fleet: Fleet, flaky_site: Origin) -> Fleet:
    """After a crawl that has left three dead letters."""
    worker = fleet.start({"ROBOTSTXT_OBEY": "False"}, seeds=flaky_site.url("/"), delay=0)
    assert worker.wait(30) == "finished"
    return fleet


def test_dead_shows_what_was_given_up_and_why(with_dead: Fleet, flaky_site: Origin) -> None:
    shown = with_dead.command("dead", "site")
    assert shown.returncode == 0
    assert "site: 3 dead" in shown.stdout and flaky_site.url("/gone") in shown.stdout
    assert f" on {flaky_site.url('/')}\n" in shown.stdout
    told = json_of(with_dead.command("dead", "site", "--reason", "http_404", "--json"))
    assert (told["dead"], told["reasons"]) == (2, {"http_404": 2})
    assert {letter["url"] for letter in told["letters"]} == {
        flaky_site.url("/a"),
        flaky_site.url("/b"),
    }
    assert all(letter["referer"] == flaky_site.url("/") for letter in told["letters"])
    everything = json_of(with_dead.command("dead", "site", "--json"))["letters"]
    order = [(letter["failed_at"], letter["url"]) for letter in everything]
    assert order == sorted(sorted(order, key=itemgetter(1)), key=itemgetter(0), reverse=True)
    without_port = flaky_site.host.partition(":")[0]
    for host in (flaky_site.host, flaky_site.url("/"), without_port):
        assert json_of(with_dead.command("dead", "site", "--host", host, "--json"))["dead"] == 3
    other_port = with_dead.command("dead", "site", "--host", f"{without_port}:1", "--json")
    assert json_of(other_port)["dead"] == 0
    none = with_dead.command("dead", "site", "--host", "elsewhere")
    assert (none.returncode, none.stdout) == (1, "site: no such dead letters\n")


def test_dead_can_be_exported(with_dead: Fleet, flaky_site: Origin, tmp_path: Path) -> None:
    table, lines = tmp_path / "dead.csv", tmp_path / "dead.jsonl"
    for file in (table, lines):
        exported = with_dead.command("dead", "site", "--export", str(file))
        assert (exported.returncode, exported.stdout) == (0, f"3 written to {file}\n")
    with table.open(newline="") as opened:
        urls = {row["url"]: row["reason"] for row in csv.DictReader(opened)}
    assert urls[flaky_site.url("/gone")] == "http_410"
    assert {json.loads(line)["url"] for line in lines.read_text().splitlines()} == urls.keys()
    refused = with_dead.command("dead", "site", "--export", "/none/x.csv")
    assert_one_line(refused, 2, "/none/x.csv", "cannot be written")
    refused = with_dead.command("dead", "site", "--export", str(tmp_path / "dead.xlsx"))
    assert_one_line(refused, 2, "dead.xlsx", ".csv or .jsonl")
    assert not (tmp_path / "dead.xlsx").exists()


def test_dead_letters_of_a_finished_crawl_are_tried_again_by_the_next_start(
    with_dead: Fleet, flaky_site: Origin
) -> None:
    flaky_site.days["now"] = 2  # type: ignore[attr-defined]
    epoch = with_dead.status()["epoch"]
    retried = with_dead.command("dead", "site", "--retry", "--reason", "http_404")
    assert retried.stdout == "2 queued again; go on with scrapy crawl site\n"
    now = with_dead.status()
    assert (now["state"], now["queued"], now["dead"], now["balance"]) == ("stopped", 2, 1, 0)
    assert now["reasons"] == {"http_410": 1}
    again = with_dead.start({"ROBOTSTXT_OBEY": "False", "CRAWL_RUN_ID": ""})
    assert again.wait(30) == "finished"
    assert "Resuming the crawl" in again.log
    now = with_dead.status()
    assert (now["epoch"], now["done"], now["dead"], now["balance"]) == (epoch, 3, 1, 0)
    assert set(with_dead.urls()) == {flaky_site.url(path) for path in ("/", "/a", "/b")}


def test_dead_letters_are_tried_again_by_workers_that_run(fleet: Fleet, flaky_site: Origin) -> None:
    worker = fleet.start(
        {"ROBOTSTXT_OBEY": "False"}, seeds=flaky_site.url("/"), delay=0, stay="true"
    )
    wait_for(lambda: fleet.status()["dead"] == 3, "three dead letters", 20)
    flaky_site.days["now"] = 2  # type: ignore[attr-defined]
    assert json_of(fleet.command("dead", "site", "--retry", "--json")) == {"retried": 3}
    wait_for(lambda: fleet.status()["done"] == 3, "the pages are there", 20)
    wait_for(lambda: fleet.status()["dead"] == 1, "and one is not", 20)
    assert worker.is_running
    assert fleet.status()["balance"] == 0


def test_dead_letters_can_be_forgotten_and_then_are_in_no_ledger_and_no_merged_file(
    with_dead: Fleet, flaky_site: Origin
) -> None:
    forgotten = in_output(with_dead, "dead", "site", "--forget", "--reason", "http_404")
    assert forgotten.stdout == "2 forgotten\n"
    now = with_dead.status()
    assert (now["state"], now["dead"], now["balance"]) == ("finished", 1, 0)
    assert now["filtered"] == {"forgotten": 2}
    assert with_dead.command("dead", "site", "--reason", "http_404").returncode == 1
    assert len(with_dead.rows("failures")) == 3
    merged = merge(with_dead.output / "site", with_dead.output / "merged")
    report = {kind.file: kind for kind in merged.kinds}["failures.csv"]
    assert (report.rows, report.forgotten) == (1, 2)
    assert "2 forgotten" in merged.to_text()
    kept = (with_dead.output / "merged" / "failures.csv").read_text()
    assert flaky_site.url("/gone") in kept and flaky_site.url("/a") not in kept


# What became of a URL


def why(fleet: Fleet, url: str) -> tuple[int, dict[str, Any]]:
    ended = in_output(fleet, "why", "site", url, "--json")
    return ended.returncode, json_of(ended)


def test_why_knows_what_has_become_of_a_url(with_dead: Fleet, flaky_site: Origin) -> None:
    code, told = why(with_dead, flaky_site.url("/#top"))
    assert (code, told["state"], told["status"]) == (0, "done", 200)
    assert (told["depth"], told["links"]) == (0, 3)
    code, told = why(with_dead, flaky_site.url("/gone"))
    assert (code, told["state"], told["reason"], told["attempts"]) == (0, "dead", "http_410", 1)
    assert (told["referer"], told["depth"]) == (flaky_site.url("/"), 1)
    code, told = why(with_dead, flaky_site.url("/nobody/links/here"))
    assert (code, told["state"], "nofollow" in told["text"]) == (1, "never seen", True)
    code, told = why(with_dead, "http://elsewhere.example/")
    assert (code, told["state"]) == (1, "never seen")
    assert "not within scope=host" in told["text"]
    code, told = why(with_dead, "mailto:a@b")
    assert (code, told["state"], told["reason"]) == (1, "refused", "scheme")
    shown = in_output(with_dead, "why", "site", flaky_site.url("/gone")).stdout
    assert shown.startswith(f"{flaky_site.url('/gone')}: given up at ") and "http_410" in shown
    assert shown.endswith(f"found on {flaky_site.url('/')}\n")


def test_why_finds_a_url_that_waits_is_fetched_or_is_not_followed(fleet: Fleet) -> None:
    def slowly(request: Any) -> Reply:
        return Reply(status=503) if request.path == "/flaky" else Reply(delay_s=30)

    links = "<a href=/slow>s</a><a href=/flaky>f</a><a href=/no>n</a><a href=http://off.example/>"
    routes: dict[str, Route] = {"/": Reply(body=links.encode()), "/slow": slowly, "/flaky": slowly}
    with Origin(routes) as origin:
        patient = {"ROBOTSTXT_OBEY": "False", "FRONTIER_RETRY_DELAY": "60"}
        patient |= {"CRAWL_DROP_PARAMS": "lang"}
        fleet.start(patient, seeds=origin.url("/"), delay=0, per_host=2, deny="/no", pages=100)
        wait_for(lambda: fleet.status()["delayed"] == 1, "one is delayed", 20)
        wait_for(lambda: fleet.status()["leased"] == 1, "one is leased", 20)
        # Which parameters make no difference is the crawl's plan, not this machine's settings.
        code, told = why(fleet, origin.url("/slow?lang=en"))
        assert (code, told["state"], told["referer"]) == (0, "leased", origin.url("/"))
        assert told["worker"] == fleet.status()["workers"][0]["name"]
        code, told = why(fleet, origin.url("/flaky"))
        assert (code, told["state"], told["attempts"]) == (0, "delayed", 1)
        code, told = why(fleet, origin.url("/no"))
        assert (code, told["state"], told["reason"]) == (0, "filtered", "denied")
        assert "deny=/no" in told["text"]
        assert why(fleet, "http://off.example/")[1]["reason"] == "offsite"
        fleet.command("pause", "site")
        fleet.command("seed", "site", origin.url("/later"))
        wait_for(lambda: fleet.status()["queued"] == 1, "one is queued", 20)
        code, told = why(fleet, origin.url("/later"))
        assert (code, told["state"], told["ahead"]) == (0, "queued", 0)
        assert told["text"].endswith("the crawl is paused (scrapy resume); a seed")
        fleet.workers[0].kill()


def test_why_knows_of_every_url_of_a_crawl_that_keeps_outcomes_without_its_files(
    fleet: Fleet,
) -> None:
    robots = Reply(body=b"User-agent: *\nDisallow: /no", headers={"Content-Type": "text/plain"})
    routes: dict[str, Route] = {
        "/robots.txt": robots,
        "/": Reply(body=b"<a href=/no>n</a><a href=/a>a</a><a href=/gone>g</a>"),
        "/a": Reply(),
    }
    with Origin(routes) as origin:
        settings = {"FRONTIER_OUTCOMES": "True", "CRAWL_WORKER_ID": "box"}
        worker = fleet.start(settings, seeds=origin.url("/"), delay=0)
        assert worker.wait(30) == "finished"
        told = {
            path: json_of(fleet.command("why", "site", origin.url(path), "--json"))
            for path in ("/", "/a", "/no", "/gone", "/other")
        }
    assert (told["/a"]["state"], told["/a"]["status"], told["/a"]["worker"]) == ("done", 200, "box")
    assert told["/a"]["at"] >= str(fleet.status()["started_at"])[:19]
    assert (told["/no"]["state"], told["/no"]["reason"]) == ("filtered", "robots")
    assert "the host's robots.txt disallows it" in told["/no"]["text"]
    assert not told["/a"].get("referer")
    assert (told["/gone"]["state"], told["/other"]["state"]) == ("dead", "never seen")


def test_why_tells_what_the_row_of_a_page_has_beside_its_outcome(fleet: Fleet) -> None:
    moved = Reply(status=301, headers={"Location": "/a"})
    routes: dict[str, Route] = {
        "/": Reply(body=b"<a href=/old>o</a>"),
        "/old": moved,
        "/a": Reply(),
    }
    with Origin(routes) as origin:
        worker = fleet.start({"FRONTIER_OUTCOMES": "True"}, seeds=origin.url("/"), delay=0)
        assert worker.wait(30) == "finished"
        code, told = why(fleet, origin.url("/old"))
        assert (code, told["state"], told["status"]) == (0, "done", 301)
        around = f", redirected to {origin.url('/a')}; found on {origin.url('/')}"
        assert told["text"].endswith(around)
        assert (told["referer"], told["redirect_to"]) == (origin.url("/"), origin.url("/a"))


def test_why_tells_how_sure_the_seen_filter_is_and_when_a_queued_url_has_its_turn(
    fleet: Fleet,
) -> None:
    page = Reply(body=b"".join(b"<a href=/%d>x</a>" % n for n in range(20)))
    with Origin({"/robots.txt": Reply(status=404), "/": page}, default=Reply()) as origin:
        worker = fleet.start(seeds=origin.url("/"), delay=3)
        wait_for(lambda: fleet.status()["queued"] > 10, "links are queued")
        told = json_of(fleet.command("why", "site", origin.url("/19"), "--json"))
        assert told["state"] == "queued" and told["host_next_s"] <= 3
        assert told["at_least_s"] >= 3 * told["ahead"] > 30
        seen = json_of(fleet.command("why", "site", origin.url("/"), "--json"))
        assert seen["state"] == "seen" and 0 <= seen["false_positive"] < 0.001
        assert "no row of pages on this machine says which" in seen["text"]
        worker.kill()


def test_why_without_a_crawl_says_so(fleet: Fleet) -> None:
    code, told = why(fleet, "http://a/")
    assert (code, told["state"], told["text"]) == (1, "never seen", "there is no crawl 'site' yet")


# Is this machine fit for a crawl


def doctor(fleet: Fleet, *words: str) -> tuple[int, dict[str, tuple[str, str]]]:
    ended = in_output(fleet, "doctor", "--json", "--dns", "localhost", *words)
    checks = json_of(ended)["checks"]
    return ended.returncode, {check["about"]: (check["level"], check["text"]) for check in checks}


def test_doctor_finds_nothing_wrong_with_a_good_redis(tmp_path: Path) -> None:
    with (
        RedisServer(tmp_path / "redis", "appendonly yes") as server,
        Fleet(tmp_path, server.url) as fleet,
    ):
        code, found = doctor(fleet, "-s", "USER_AGENT=mine (+https://me.test/bot)")
        assert code == 0
        assert {level for level, _ in found.values()} == {"ok"}
        wanted = {"settings", "redis", "persistence", "memory", "latency", "file limit", "dns"}
        assert found.keys() >= {*wanted, "output", "user agent"}
        text = in_output(fleet, "doctor", "--dns", "localhost").stdout
        assert text.startswith("ok    settings ") and "warn  user agent" in text


def test_doctor_says_what_is_wrong_and_what_to_do(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    with Fleet(tmp_path, redis_server.url) as fleet:
        code, found = doctor(fleet)
        assert (code, found["persistence"][0]) == (0, "warn")
        assert "config set appendonly yes" in found["persistence"][1]
        code, found = doctor(fleet, "-s", "SEEN_CAPACITY=0", "-s", "CONCURRENT_REQUESTS=9999999")
        assert code == 1
        assert found["settings"][0] == "fail" and "SEEN_CAPACITY=0" in found["settings"][1]
        assert found["file limit"][0] == "fail" and "ulimit -n" in found["file limit"][1]
        fleet.output.rmdir()
        fleet.output.touch()
        code, found = doctor(fleet)
        assert (code, found["output"][0]) == (1, "fail")


def test_doctor_without_a_redis_fails_and_goes_on(tmp_path: Path) -> None:
    code, found = doctor(Fleet(tmp_path, "redis://127.0.0.1:1/0"))
    assert (code, found["redis"][0], found["output"][0]) == (1, "fail", "ok")
    assert "No Redis answers" in found["redis"][1]


# Progress


def test_progress_is_shown_again_after_the_crawl_could_not_be_read(
    fleet: Fleet, redis: Redis
) -> None:
    with Origin({"/": HANG}) as origin:
        chatty = {"ROBOTSTXT_OBEY": "False", "LOG_LEVEL": "DEBUG"}
        worker = fleet.start(chatty, seeds=origin.url("/"), delay=0)
        worker.wait_for_log("pages here")
        counts = keys.counts("site", 0)
        redis.hset(counts, "dead", "damaged")
        worker.wait_for_log("No progress to show")
        redis.hset(counts, "dead", 0)
        before = worker.log.count("pages here")
        wait_for(lambda: worker.log.count("pages here") > before, "progress", 10)


HOUR_MS = 3_600_000


def test_rows_of_stats_add_up_to_a_summary_that_counts_no_time_in_which_nobody_was_at_it(
    fleet: Fleet, redis: Redis
) -> None:
    links = "".join(f"<a href=/{number}>x</a>" for number in range(12)) + "<a href=/gone>x</a>"
    pages: dict[str, Route] = {f"/{number}": Reply(body=b"x" * 1000) for number in range(12)}
    with Origin({"/": Reply(body=links.encode()), **pages}) as origin:
        rare = {"CRAWL_STATS_INTERVAL": "3600", "ROBOTSTXT_OBEY": "False"}
        first = fleet.start(rare, seeds=origin.url("/"), delay=0.2)
        wait_for(lambda: fleet.status()["done"] > 2, "some pages", 30)
        fleet.command("stop", "site")
        assert first.wait(30) == "stopped"
        stopped = fleet.status()
        redis.hset(keys.meta("site", 0), "skew_ms", HOUR_MS)
        idle = fleet.status()
        for name in ("elapsed_s", "finished_at", "started_at"):
            assert idle[name] == stopped[name]
        assert fleet.start(rare | {"CRAWL_RUN_ID": ""}).wait(30) == "finished"
        now = fleet.status()
    summary = json.loads((fleet.output / "site" / "summary.json").read_text())
    assert summary["duration_s"] == now["elapsed_s"] > stopped["elapsed_s"] > 0
    assert summary["duration_s"] < HOUR_MS / 1000 < summary_span_s(summary)
    assert summary["pages_per_s"] == round(summary["done"] / summary["duration_s"], 2)
    rows = fleet.rows("stats")
    assert len(rows) == 2  # neither worker has seen an interval to its end
    for column, total in (("pages", "done"), ("bytes", "bytes"), ("errors", "dead")):
        assert sum(int(row[column]) for row in rows) == summary[total] > 0


def summary_span_s(summary: dict[str, Any]) -> float:
    began, ended = map(datetime.fromisoformat, (summary["started_at"], summary["finished_at"]))
    return (ended - began).total_seconds()
