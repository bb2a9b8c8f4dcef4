"""The commands as users type them: what they print, how they end, what they say to mistakes."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawlproj.demo import DemoServer, WebSpec
from tests.servers.fleet import PROJECT, Fleet, fleet
from tests.servers.origin import Origin, Reply, Route
from tests.servers.redis import RedisServer, wait_for

COMMANDS = (
    *("crawl", "dead", "demo", "doctor", "fleet", "merge", "pause", "purge", "resume", "seed"),
    *("status", "stop", "why"),
)
SMALL = WebSpec(seed=4, hosts=3, pages=40, flaky=0.0, slow=0.0)
STATUS_FIELDS = {
    *("crawl", "epoch", "state", "discovered", "queued", "delayed", "leased", "done", "dead"),
    *("filtered", "duplicates", "hosts", "workers", "seen", "balance"),
}
Ended = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def web() -> Iterator[DemoServer]:
    with DemoServer(SMALL) as server:
        yield server


@pytest.fixture
def ships(tmp_path: Path, redis_server: RedisServer) -> Iterator[Fleet]:
    with fleet(tmp_path, redis_server.url) as sailing:
        yield sailing


@pytest.fixture
def finished(ships: Fleet, web: DemoServer) -> Fleet:
    """After a small crawl."""
    assert ships.start(seeds=web.seeds[0], scope="any", delay=0).wait(40) == "finished"
    return ships


@pytest.fixture
def running(ships: Fleet, web: DemoServer) -> Fleet:
    """In the middle of a crawl that waits for nothing but its pace."""
    ships.start(seeds=web.seeds[0], scope="any", delay=0.5)
    wait_for(lambda: ships.status()["done"], "a page", 20)
    return ships


def in_output(ships: Fleet, *words: str) -> Ended:
    """A command that reads or writes the crawl's files."""
    return ships.command(*words, "-s", f"CRAWL_OUTPUT={ships.output}")


def said(ended: Ended) -> Any:
    """What a command prints with --json."""
    return json.loads(ended.stdout)


def assert_one_line(ended: Ended, code: int, *parts: str) -> None:
    """A mistake is answered by one line, which has these parts."""
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (code, "", 1), ended
    for part in parts:
        assert part in ended.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(ships: Fleet, name: str) -> None:
    helped = ships.command(name, "--help")
    assert helped.returncode == 0
    assert helped.stderr == ""
    assert f"scrapy {name}" in helped.stdout


def test_scrapy_lists_every_command(ships: Fleet) -> None:
    listed = ships.command().stdout
    assert [name for name in COMMANDS if f"\n  {name} " not in listed] == []


# Mistakes


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["crawl", "site", "-a", "depth=x"], ["depth=x", "whole number, 0 or more"]),
        (["crawl", "site", "-a", "seed=http://a"], ["no such argument", "did you mean seeds?"]),
        (["crawl", "site", "-a", "depth"], ["-a NAME=VALUE"]),
        (["crawl", "site", "-a", "seeds=a.example"], ["seeds: ", "a.example"]),
        (["crawl", "site", "-a", "seeds=@/none"], ["/none", "cannot be read"]),
        (["crawl", "site", "-a", "scope=all"], ["scope=all", "host, domain, any"]),
        (["crawl", "site", "-s", "FRONTIER_SHARD=3"], ["did you mean FRONTIER_SHARDS?"]),
        (["crawl", "site", "-s", "SEEN_CAPACITY=many"], ["SEEN_CAPACITY=many", "whole number"]),
        (["crawl", "site", "-O", "pages.nonsense"], ["nonsense"]),
        (["crawl", "sight"], ["sight: no such spider", "site"]),
        (["crawl"], ["which spider?", "site"]),
        (["fleet", "site", "-n", "0"], ["-n 0", "1 or more"]),
        (["fleet", "site", "-n", "two"], ["two"]),
        (["fleet", "site", "-a", "depth=x"], ["depth=x", "whole number"]),
        (["status"], ["give the crawl's name", "scrapy status <crawl>"]),
        (["status", "site", "other"], ["too many arguments", "'other'"]),
        (["status", "site", "--jsn"], ["no such option --jsn", "scrapy status <crawl>"]),
        (["status", "site", "-s", "CRAWL_DEPHT=1"], ["did you mean CRAWL_DEPTH?"]),
        (["seed", "site"], ["at least one URL"]),
        (["seed", "site", "-f", "/none"], ["/none", "cannot be read"]),
        (["purge", "site"], ["add --yes"]),
        (["merge"], ["give the crawl's name"]),
        (["why", "site"], ["give a URL"]),
        (["dead", "site", "--retry", "--forget"], ["not allowed with"]),
        (["demo", "--pages", "0"], ["pages=0"]),
    ],
    ids=" ".join,
)
def test_wrong_use_is_answered_in_one_line_with_code_2(
    ships: Fleet, words: list[str], parts: list[str]
) -> None:
    assert_one_line(ships.command(*words), 2, *parts)


@pytest.mark.parametrize("words", [["crawl", "site"], ["status", "site"], ["fleet", "site"]])
def test_without_a_redis_one_line_says_what_to_do(tmp_path: Path, words: list[str]) -> None:
    nowhere = Fleet(tmp_path, "redis://127.0.0.1:1/0")
    assert_one_line(nowhere.command(*words), 1, "No Redis answers at 127.0.0.1:1", "start it")


def test_a_wrong_password_and_an_evicting_redis_are_named(tmp_path: Path) -> None:
    config = "maxmemory-policy allkeys-lru"
    with RedisServer(tmp_path / "redis", config, password="right") as server:
        wrong = Fleet(tmp_path, server.url.replace("right", "wrong"))
        assert_one_line(wrong.command("crawl", "site"), 1, "does not accept the password")
        right = Fleet(tmp_path, server.url)
        for words in (["crawl", "site"], ["status", "site"]):
            ended = right.command(*words)
            assert_one_line(ended, 1, "allkeys-lru", "config set maxmemory-policy noeviction")
            assert "right" not in ended.stderr


# How the crawl stands, and telling it what to do


def test_status_of_nothing_says_how_to_begin(ships: Fleet) -> None:
    shown = ships.command("status", "site")
    assert shown.returncode == 0
    assert "nothing here yet" in shown.stdout and "scrapy crawl site -a seeds=" in shown.stdout
    now = said(ships.command("status", "site", "--json"))
    assert now.keys() >= STATUS_FIELDS
    assert (now["state"], now["discovered"], now["balance"]) == ("empty", 0, 0)


def test_status_of_a_running_crawl_balances_and_names_its_workers(running: Fleet) -> None:
    now = said(running.command("status", "site", "--json"))
    assert now.keys() >= STATUS_FIELDS
    assert (now["state"], now["balance"]) == ("running", 0)
    [worker] = now["workers"]
    assert worker["pid"] == running.workers[0].process.pid
    assert worker["alive"] is True
    assert now["seen"].keys() >= {"capacity", "items", "expected_fp", "measured_fp"}
    text = running.command("status", "site").stdout
    assert "site: running" in text and worker["name"] in text


def test_status_of_a_finished_crawl_is_its_ledger(finished: Fleet, web: DemoServer) -> None:
    now = said(finished.command("status", "site", "--json"))
    expected = web.web.expected(web.seeds[:1])
    assert (now["state"], now["balance"], now["workers"]) == ("finished", 0, [])
    assert now["done"] == len(expected.pages | expected.redirects | expected.non_html)
    assert now["dead"] == len(expected.missing)
    assert sum(now["filtered"].values()) + now["done"] + now["dead"] == now["discovered"]
    watched = finished.command("status", "site", "--watch")
    assert watched.returncode == 0 and "site: finished" in watched.stdout


def test_pause_resume_and_stop_reach_a_running_worker(running: Fleet) -> None:
    paused = running.command("pause", "site", "--json")
    assert (paused.returncode, said(paused)) == (0, {"state": "paused"})
    wait_for(lambda: not running.status()["leased"], "nothing is being fetched", 20)
    before = running.status()
    assert (before["state"], before["balance"]) == ("paused", 0)
    assert "cannot be" not in running.command("pause", "site").stdout
    resumed = running.command("resume", "site")
    assert (resumed.returncode, resumed.stdout) == (0, "site: running\n")
    wait_for(lambda: running.status()["done"] > before["done"], "another page", 20)
    stopped = running.command("stop", "site")
    assert (stopped.returncode, "finish what they hold" in stopped.stdout) == (0, True)
    assert running.wait(20) == ["stopped"]
    now = running.status()
    assert (now["state"], now["leased"], now["balance"]) == ("stopped", 0, 0)
    again = running.command("resume", "site")
    assert (again.returncode, "scrapy crawl site" in again.stdout) == (1, True)
    assert running.command("pause", "site").returncode == 1
    assert running.command("stop", "site").returncode == 0


@pytest.mark.parametrize("name", ["pause", "resume", "stop"])
def test_nothing_can_be_told_to_a_crawl_that_is_not_there(ships: Fleet, name: str) -> None:
    told = ships.command(name, "site", "--json")
    assert (told.returncode, said(told)) == (1, {"state": "empty"})


def test_nothing_can_be_told_to_a_crawl_that_has_finished(finished: Fleet) -> None:
    for name in ("pause", "resume", "stop"):
        told = finished.command(name, "site")
        assert told.returncode == 1
        assert "finished" in told.stdout and told.stderr == ""


def test_purge_waits_until_no_worker_runs_and_then_leaves_nothing(
    running: Fleet, redis_server: RedisServer
) -> None:
    refused = running.command("purge", "site", "--yes")
    assert (refused.returncode, "scrapy stop site first" in refused.stdout) == (1, True)
    redis_server.cli("lpush", "site:start_urls", "nonsense")
    running.workers[0].wait_for_log("Seed refused")
    redis_server.cli("set", "mine", "kept")
    running.command("stop", "site")
    running.wait(20)
    purged = running.command("purge", "site", "--yes", "--json")
    assert (purged.returncode, said(purged)) == (0, {"purged": True})
    assert redis_server.cli("keys", "*") == "mine"
    assert running.status()["state"] == "empty"


def test_workers_that_died_do_not_keep_a_crawl_from_being_purged(
    ships: Fleet, web: DemoServer, redis_server: RedisServer
) -> None:
    worker = ships.start({"FRONTIER_LEASE_TIMEOUT": "1"}, seeds=web.seeds[0], delay=0.5)
    wait_for(lambda: ships.status()["done"], "a page", 20)
    worker.kill()
    wait_for(lambda: not ships.status()["workers"][0]["alive"], "it counts as dead", 5)
    assert "silent" in ships.command("status", "site").stdout
    assert ships.command("purge", "site", "--yes").returncode == 0
    assert redis_server.cli("keys", "*") == ""


# Files


def test_merge_without_files_is_a_no_in_one_line(ships: Fleet) -> None:
    assert_one_line(in_output(ships, "merge", "site"), 1, "site")


def test_merge_makes_one_file_of_each_kind(finished: Fleet) -> None:
    merged = in_output(finished, "merge", "site", "--json")
    assert merged.returncode == 0
    rows = {kind["file"]: kind["rows"] for kind in said(merged)["kinds"]}
    assert rows["pages.csv"] == rows["pages.jsonl"] == finished.status()["done"]
    assert rows["failures.csv"] == finished.status()["dead"]


def test_a_json_feed_holds_pages_only_as_in_any_scrapy_project(
    tmp_path: Path, ships: Fleet, web: DemoServer
) -> None:
    file = tmp_path / "pages.json"
    words = ["crawl", "site", "-O", str(file), "-a", f"seeds={web.seeds[0]}", "-a", "delay=0"]
    ended = in_output(ships, *words)
    assert ended.returncode == 0
    pages = json.loads(file.read_text())
    assert sorted(page["url"] for page in pages) == sorted(ships.urls())
    assert all("title" in page and "reason" not in page for page in pages)


# A fleet


def test_a_fleet_crawls_to_the_end_and_shows_the_summary(ships: Fleet, web: DemoServer) -> None:
    seeds = ["-a", f"seeds={web.seeds[0]}", "-a", "scope=any", "-a", "delay=0"]
    sailed = in_output(ships, "fleet", "site", "-n", "2", *seeds)
    assert (sailed.returncode, sailed.stderr) == (0, "")
    assert sailed.stdout.count("worker-") == 2
    assert "Crawl site is finished" in sailed.stdout
    expected = web.web.expected(web.seeds[:1])
    assert sorted(ships.urls()) == sorted(expected.pages | expected.redirects | expected.non_html)


def test_ctrl_c_lets_a_fleet_return_what_it_holds(ships: Fleet, web: DemoServer) -> None:
    seeds = ["-a", f"seeds={web.seeds[0]}", "-a", "scope=any", "-a", "delay=0.3"]
    output = ["-s", f"CRAWL_OUTPUT={ships.output}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "scrapy", "fleet", "site", "-n", "2", *seeds, *output],
        env=ships.env,
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: len(ships.status()["workers"]) == 2, "two workers", 20)
        wait_for(lambda: ships.status()["done"] > 2, "some pages", 20)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert err == "stopping the workers; once more ends them at once\n"
    assert "Crawl site is running" in out
    now = ships.status()
    assert (now["leased"], now["workers"], now["balance"]) == (0, [], 0)
    assert now["queued"] > 0
    assert len(ships.urls()) == now["done"]


# Dead letters


@pytest.fixture
def ailing() -> Iterator[Origin]:
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
def bereaved(ships: Fleet, ailing: Origin) -> Fleet:
    """After a crawl that has left three dead letters."""
    worker = ships.start({"ROBOTSTXT_OBEY": "False"}, seeds=ailing.url("/"), delay=0)
    assert worker.wait(30) == "finished"
    return ships


def test_dead_shows_what_was_given_up_and_why(bereaved: Fleet, ailing: Origin) -> None:
    shown = bereaved.command("dead", "site")
    assert shown.returncode == 0
    assert "site: 3 dead" in shown.stdout and ailing.url("/gone") in shown.stdout
    told = said(bereaved.command("dead", "site", "--reason", "http_404", "--json"))
    assert (told["dead"], told["reasons"]) == (2, {"http_404": 2})
    assert {letter["url"] for letter in told["letters"]} == {ailing.url("/a"), ailing.url("/b")}
    assert all(letter["referer"] == ailing.url("/") for letter in told["letters"])
    assert said(bereaved.command("dead", "site", "--host", ailing.host, "--json"))["dead"] == 3
    none = bereaved.command("dead", "site", "--host", "elsewhere")
    assert (none.returncode, none.stdout) == (1, "site: no such dead letters\n")


def test_dead_can_be_exported(bereaved: Fleet, ailing: Origin, tmp_path: Path) -> None:
    table, lines = tmp_path / "dead.csv", tmp_path / "dead.jsonl"
    for file in (table, lines):
        exported = bereaved.command("dead", "site", "--export", str(file))
        assert (exported.returncode, exported.stdout) == (0, f"3 written to {file}\n")
    with table.open(newline="") as opened:
        urls = {row["url"]: row["reason"] for row in csv.DictReader(opened)}
    assert urls[ailing.url("/gone")] == "http_410"
    assert {json.loads(line)["url"] for line in lines.read_text().splitlines()} == urls.keys()
    refused = bereaved.command("dead", "site", "--export", "/none/x.csv")
    assert_one_line(refused, 2, "/none/x.csv", "cannot be written")


def test_dead_letters_of_a_finished_crawl_are_tried_again_by_the_next_start(
    bereaved: Fleet, ailing: Origin
) -> None:
    ailing.days["now"] = 2  # type: ignore[attr-defined]
    epoch = bereaved.status()["epoch"]
    retried = bereaved.command("dead", "site", "--retry", "--reason", "http_404")
    assert retried.stdout == "2 queued again; go on with scrapy crawl site\n"
    now = bereaved.status()
    assert (now["state"], now["queued"], now["dead"], now["balance"]) == ("stopped", 2, 1, 0)
    assert now["reasons"] == {"http_410": 1}
    again = bereaved.start({"ROBOTSTXT_OBEY": "False", "CRAWL_RUN_ID": ""})
    assert again.wait(30) == "finished"
    assert "Resuming the crawl" in again.log
    now = bereaved.status()
    assert (now["epoch"], now["done"], now["dead"], now["balance"]) == (epoch, 3, 1, 0)
    assert set(bereaved.urls()) == {ailing.url(path) for path in ("/", "/a", "/b")}


def test_dead_letters_are_tried_again_by_workers_that_run(ships: Fleet, ailing: Origin) -> None:
    worker = ships.start({"ROBOTSTXT_OBEY": "False"}, seeds=ailing.url("/"), delay=0, stay="true")
    wait_for(lambda: ships.status()["dead"] == 3, "three dead letters", 20)
    ailing.days["now"] = 2  # type: ignore[attr-defined]
    assert said(ships.command("dead", "site", "--retry", "--json")) == {"retried": 3}
    wait_for(lambda: ships.status()["done"] == 3, "the pages are there", 20)
    wait_for(lambda: ships.status()["dead"] == 1, "and one is not", 20)
    assert worker.is_running
    assert ships.status()["balance"] == 0


def test_dead_letters_can_be_forgotten_and_the_ledger_balances(bereaved: Fleet) -> None:
    forgotten = bereaved.command("dead", "site", "--forget")
    assert forgotten.stdout == "3 forgotten\n"
    now = bereaved.status()
    assert (now["state"], now["dead"], now["balance"]) == ("finished", 0, 0)
    assert now["filtered"] == {"forgotten": 3}
    assert bereaved.command("dead", "site").returncode == 1


# What became of a URL


def why(ships: Fleet, url: str) -> tuple[int, dict[str, Any]]:
    ended = in_output(ships, "why", "site", url, "--json")
    return ended.returncode, said(ended)


def test_why_knows_what_has_become_of_a_url(bereaved: Fleet, ailing: Origin) -> None:
    code, told = why(bereaved, ailing.url("/#top"))
    assert (code, told["state"], told["status"]) == (0, "done", "200")
    code, told = why(bereaved, ailing.url("/gone"))
    assert (code, told["state"], told["reason"], told["attempts"]) == (0, "dead", "http_410", 1)
    code, told = why(bereaved, ailing.url("/nobody/links/here"))
    assert (code, told["state"]) == (1, "never seen")
    code, told = why(bereaved, "http://elsewhere.example/")
    assert (code, told["state"]) == (1, "never seen")
    assert "not within scope=host" in told["text"]
    code, told = why(bereaved, "mailto:a@b")
    assert (code, told["state"], told["reason"]) == (1, "refused", "scheme")
    shown = in_output(bereaved, "why", "site", ailing.url("/gone")).stdout
    assert shown.startswith(f"{ailing.url('/gone')}: given up at ") and "http_410" in shown


def test_why_finds_a_url_that_waits_is_fetched_or_is_not_followed(ships: Fleet) -> None:
    def slowly(request: Any) -> Reply:
        return Reply(status=503) if request.path == "/flaky" else Reply(delay_s=30)

    links = "<a href=/slow>s</a><a href=/flaky>f</a><a href=/no>n</a><a href=http://off.example/>"
    routes: dict[str, Route] = {"/": Reply(body=links.encode()), "/slow": slowly, "/flaky": slowly}
    with Origin(routes) as origin:
        patient = {"ROBOTSTXT_OBEY": "False", "FRONTIER_RETRY_DELAY": "60"}
        ships.start(patient, seeds=origin.url("/"), delay=0, per_host=2, deny="/no", pages=100)
        wait_for(lambda: ships.status()["delayed"] == 1, "one is delayed", 20)
        wait_for(lambda: ships.status()["leased"] == 1, "one is leased", 20)
        code, told = why(ships, origin.url("/slow"))
        assert (code, told["state"]) == (0, "leased")
        assert told["worker"] == ships.status()["workers"][0]["name"]
        code, told = why(ships, origin.url("/flaky"))
        assert (code, told["state"], told["attempts"]) == (0, "delayed", 1)
        code, told = why(ships, origin.url("/no"))
        assert (code, told["state"], told["reason"]) == (0, "filtered", "denied")
        assert "deny=/no" in told["text"]
        assert why(ships, "http://off.example/")[1]["reason"] == "offsite"
        ships.command("pause", "site")
        ships.command("seed", "site", origin.url("/later"))
        wait_for(lambda: ships.status()["queued"] == 1, "one is queued", 20)
        code, told = why(ships, origin.url("/later"))
        assert (code, told["state"], told["ahead"]) == (0, "queued", 0)
        ships.workers[0].kill()


def test_why_without_a_crawl_says_so(ships: Fleet) -> None:
    code, told = why(ships, "http://a/")
    assert (code, told["state"], told["text"]) == (1, "never seen", "there is no crawl 'site' yet")


# Is this machine fit for a crawl


def doctor(ships: Fleet, *words: str) -> tuple[int, dict[str, tuple[str, str]]]:
    ended = in_output(ships, "doctor", "--json", "--dns", "localhost", *words)
    checks = said(ended)["checks"]
    return ended.returncode, {check["about"]: (check["level"], check["text"]) for check in checks}


def test_doctor_finds_nothing_wrong_with_a_good_redis(tmp_path: Path) -> None:
    with (
        RedisServer(tmp_path / "redis", "appendonly yes") as server,
        fleet(tmp_path, server.url) as ships,
    ):
        code, found = doctor(ships, "-s", "USER_AGENT=mine (+https://me.test/bot)")
        assert code == 0
        assert {level for level, _ in found.values()} == {"ok"}
        wanted = {"settings", "redis", "persistence", "memory", "latency", "file limit", "dns"}
        assert found.keys() >= {*wanted, "output", "user agent"}
        text = in_output(ships, "doctor", "--dns", "localhost").stdout
        assert text.startswith("ok    settings ") and "warn  user agent" in text


def test_doctor_says_what_is_wrong_and_what_to_do(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    with fleet(tmp_path, redis_server.url) as ships:
        code, found = doctor(ships)
        assert (code, found["persistence"][0]) == (0, "warn")
        assert "config set appendonly yes" in found["persistence"][1]
        code, found = doctor(ships, "-s", "SEEN_CAPACITY=0", "-s", "CONCURRENT_REQUESTS=9999999")
        assert code == 1
        assert found["settings"][0] == "fail" and "SEEN_CAPACITY=0" in found["settings"][1]
        assert found["file limit"][0] == "fail" and "ulimit -n" in found["file limit"][1]
        ships.output.rmdir()
        ships.output.touch()
        code, found = doctor(ships)
        assert (code, found["output"][0]) == (1, "fail")


def test_doctor_without_a_redis_fails_and_goes_on(tmp_path: Path) -> None:
    code, found = doctor(Fleet(tmp_path, "redis://127.0.0.1:1/0"))
    assert (code, found["redis"][0], found["output"][0]) == (1, "fail", "ok")
    assert "No Redis answers" in found["redis"][1]
