"""The commands as users type them: what they print, how they end, what they say to mistakes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlproj.demo import DemoServer, WebSpec
from crawlproj.frontier import keys
from tests.crawl.command_line import assert_one_line, in_output, json_of
from tests.servers import scrapy_process
from tests.servers.fleet import DEMO_WEB, PROJECT, Fleet, Worker
from tests.servers.redis import PATIENCE, RedisServer, wait_for

COMMANDS = (
    *(
        "crawl",
        "crawls",
        "dead",
        "demo",
        "doctor",
        "fleet",
        "merge",
        "near",
        "query",
        "rank",
        "sitemap",
        "pause",
        "purge",
        "resume",
        "seed",
    ),
    *("change", "drain", "drop", "pace", "set", "status", "stop", "why"),
)
SPEC = WebSpec(seed=4, hosts=3, pages=40, flaky=0.0, slow=0.0)
STATUS_FIELDS = {
    *("crawl", "epoch", "state", "discovered", "queued", "delayed", "leased", "done", "dead"),
    *("filtered", "duplicates", "hosts", "workers", "seen", "balance"),
}
REACHES_ALL = [word for pair in DEMO_WEB.items() for word in ("-s", "{}={}".format(*pair))]

pytestmark = pytest.mark.demo_web


@pytest.fixture(scope="module")
def large_web() -> Iterator[DemoServer]:
    """One that no test gets to the end of, however slow the machine."""
    with DemoServer(WebSpec(hosts=4, pages=2000).smooth()) as server:
        yield server


@pytest.fixture
def finished(fleet: Fleet, web: DemoServer) -> Fleet:
    """After a small crawl."""
    assert fleet.start(seeds=web.seeds[0], scope="any", delay=0).wait(40) == "finished"
    return fleet


@pytest.fixture
def running(fleet: Fleet, large_web: DemoServer) -> Fleet:
    """In the middle of a crawl that waits for nothing but its pace."""
    fleet.start(seeds=large_web.seeds[0], scope="any", delay=0.5)
    wait_for(lambda: fleet.status()["done"], "a page", 20)
    return fleet


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(fleet: Fleet, name: str) -> None:
    helped = fleet.command(name, "--help")
    assert helped.returncode == 0
    assert helped.stderr == ""
    assert f"scrapy {name}" in helped.stdout


def test_scrapy_lists_every_command(fleet: Fleet) -> None:
    listed = fleet.command().stdout
    assert [name for name in COMMANDS if f"\n  {name} " not in listed] == []


# Mistakes


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["crawl", "site", "-a", "depth=x"], ["depth=x", "whole number, 0 or more"]),
        (["crawl", "site", "-a", "seed=http://a"], ["no such argument", "did you mean seeds?"]),
        (["crawl", "site", "-a", "seeds="], ["-a seeds=: give URLs, or leave it out to wait"]),
        (["fleet", "site", "-a", "seeds=,"], ["-a seeds=,: give URLs, or leave it out to wait"]),
        (["crawl", "site", "-a", "crawl= "], ["-a crawl= : give a name of", "or leave it out"]),
        (["crawl", "site", "-a", "pages="], ["-a pages=: give a whole number", "leave it out"]),
        (["fleet", "site", "-a", "minutes= "], ["-a minutes= : give minutes", "leave it out"]),
        (["crawl", "site", "-a", "depth"], ["-a NAME=VALUE"]),
        (["crawl", "site", "-a", "seeds=a.example"], ["seeds: ", "a.example"]),
        (["crawl", "site", "-a", "seeds=@/none"], ["/none", "cannot be read"]),
        (["crawl", "site", "-a", "scope=all"], ["scope=all", "host, domain, any"]),
        (["crawl", "site", "-s", "FRONTIER_SHARD=3"], ["did you mean FRONTIER_SHARDS?"]),
        (["crawl", "site", "-s", "SEEN_CAPACITY=many"], ["SEEN_CAPACITY=many", "whole number"]),
        (["crawl", "site", "-O", "pages.nonsense"], ["nonsense"]),
        (["crawl", "site", "-s", "CRAWL_NOTIFY=/none"], ["CRAWL_NOTIFY=/none", "no program"]),
        (
            ["fleet", "site", "-s", "CRAWL_METRICS_PORT=9410", "-s", "CRAWL_METRICS_HOST=0.0.0.0"],
            ["CRAWL_METRICS_HOST=0.0.0.0", "CRAWL_DASHBOARD_TOKEN"],
        ),
        (["crawl", "sight"], ["sight: no such spider", "site"]),
        (["crawl"], ["which spider?", "site"]),
        (["crawl", "site", "--foo"], ["no such option --foo"]),
        (["crawl", "site", "other"], ["too many arguments", "'other'"]),
        (["crawl", "site", "-a", "crawl=a/b"], ["crawl=a/b", "letters, digits"]),
        (["fleet", "site", "-a", "crawl={a}"], ["crawl={a}", "letters, digits"]),
        (
            ["seed", "sit", "http://a.test/"],
            ["sit: neither a crawl", "did you mean site?", "--new"],
        ),
        (["fleet", "site", "-n", "0"], ["-n 0", "1 or more"]),
        (["fleet", "site", "-n", "two"], ["two"]),
        (["fleet", "site", "-a", "depth=x"], ["depth=x", "whole number"]),
        (["status", "site", "other"], ["too many arguments", "'other'"]),
        (["status", "site", "--jsn"], ["no such option --jsn", "scrapy status [<crawl>]"]),
        (["status", "site", "-s", "CRAWL_DEPHT=1"], ["did you mean CRAWL_DEPTH?"]),
        (["seed", "site"], ["at least one URL"]),
        (["seed", "site", "-f", "/none"], ["/none", "cannot be read"]),
        (["audit", "/none.log"], ["/none.log", "cannot be read", "give the demo web's log"]),
        (["merge"], ["give the crawl's name"]),
        (["merge", "site", "--format", "xml"], ["--format xml", "csv,jsonl,parquet"]),
        (["merge", "site", "/none"], ["/none: no such folder"]),
        (["query", "site"], ["give the crawl's name and a question"]),
        (["query", "site", "DROP TABLE pages"], ["one question at a time", "pages, failures"]),
        (["query", "site", "SELECT 1", "-o", "none/x.csv"], ["there is no folder none"]),
        (["query", "site", "SELECT 1", "--timeout=inf"], ["inf: give seconds, more than 0"]),
        (["query", "site", "SELECT 1", "--memory=0"], ["0: give megabytes, 100 to 1000000"]),
        (["merge", "site", "--memory=99999999999999"], ["give megabytes, 100 to 1000000"]),
        (["report", "site", "--memory=-1"], ["-1: give megabytes, 100 to 1000000"]),
        (["merge", "site", "-o", "/dev/null"], ["-o /dev/null: that is a file; give a folder"]),
        (["sitemap", "site", "-o", "/dev/null"], ["-o /dev/null: that is a file; give a folder"]),
        (["query", "site", "SELECT 1", "-o", "/dev/zero"], ["-o /dev/zero: that is a device"]),
        (["audit", "x.log", "--delay", "x"], ["--delay", "x: give seconds, 0 to 86400"]),
        (["audit", "x.log", "--per-host", "x"], ["--per-host", "x: give a whole number, 1 or"]),
        (["query", ".", "SELECT 1"], ["'.': no name of a crawl"]),
        (["store", ".."], ["'..': no name of a crawl"]),
        (["seed", "", "--new", "http://a.test/"], ["'': no name of a crawl"]),
        (["report", "site", "-o", "none/x.html"], ["there is no folder none"]),
        (["report", "site", "-o", "."], ["that is a folder"]),
        (["archive", "site", "--get", "http://a/", "-o", "none/x"], ["there is no folder none"]),
        (["archive", "site", "--wacz", "none/x.wacz"], ["--wacz none/x.wacz: there is no folder"]),
        (["store", "site", "--get", "http://a/", "-o", "none/x"], ["there is no folder none"]),
        (["store", "site", "-o", "x"], ["-o goes with --get"]),
        (["near"], ["give the crawl's name"]),
        (["rank"], ["give the crawl's name"]),
        (["sitemap"], ["give the crawl's name"]),
        (["why", "site"], ["give a URL"]),
        (["change", "site", "delay=soon"], ["delay=soon: give seconds"]),
        (["dead", "site", "--retry", "--forget"], ["not allowed with"]),
        (["dead", "site", "--forget", "--host", ""], ["--host: it has no value"]),
        (["dead", "site", "--forget", "--reason", ""], ["--reason: it has no value"]),
        (["drop", "site", "--host", "a.test", "--match", ""], ["--match: it has no value"]),
        (["patterns", "site", "--release", ""], ["--release: it has no value"]),
        (["demo", "--pages", "0"], ["pages=0"]),
    ],
    ids=" ".join,
)
def test_wrong_use_is_answered_in_one_line_with_code_2(
    fleet: Fleet, words: list[str], parts: list[str]
) -> None:
    assert_one_line(fleet.command(*words), 2, *parts)


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


ABOUT_A_CRAWL = [
    ["status"],
    ["pause"],
    ["resume"],
    ["stop"],
    ["purge", "--yes"],
    ["why", "http://a.test/"],
    ["dead"],
    ["patterns"],
]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["purge", "--yes"], {"purged": False}),
        (["patterns"], []),
        (["patterns", "--release", "all"], {"released": [], "queued": 0}),
    ],
    ids=str,
)
def test_scripts_are_told_no_of_a_crawl_that_redis_does_not_know(
    fleet: Fleet, words: list[str], told: object
) -> None:
    name, *rest = words
    ended = fleet.command(name, "sight", *rest, "--json")
    assert (ended.returncode, ended.stderr, json_of(ended)) == (1, "", told)


def test_seeds_that_wait_are_purged_before_there_is_a_crawl(
    fleet: Fleet, redis_server: RedisServer
) -> None:
    redis_server.cli("lpush", "sight:start_urls", "http://a.test/")
    assert json_of(fleet.command("purge", "sight", "--yes", "--json")) == {"purged": True}
    assert redis_server.cli("exists", "sight:start_urls") == "0"


@pytest.mark.parametrize("words", ABOUT_A_CRAWL, ids=" ".join)
def test_a_crawl_that_redis_does_not_know_is_answered_in_one_line(
    fleet: Fleet, redis_server: RedisServer, words: list[str]
) -> None:
    name, *rest = words
    begin = "scrapy crawl site -a seeds=https://example.com"
    assert_one_line(fleet.command(name, "sight", *rest), 1, "sight: no such crawl", begin)
    for crawl in ("site", "shop"):
        redis_server.cli("hset", keys.meta(crawl, 0), "epoch", "1")
    known = "sight: no such crawl in this Redis; there are shop, site"
    assert_one_line(fleet.command(name, "sight", *rest), 1, known)


def test_status_of_a_crawl_whose_seeds_wait_says_so(
    fleet: Fleet, redis_server: RedisServer
) -> None:
    redis_server.cli("lpush", "site:start_urls", "http://a.test/")
    shown = fleet.command("status", "site")
    assert (shown.returncode, "1 seed waits" in shown.stdout, shown.stderr) == (1, True, "")
    assert json_of(fleet.command("status", "site", "--json"))["seeds_waiting"] == 1


def test_status_of_a_crawl_that_has_not_begun_has_the_same_keys_as_any_other(
    running: Fleet,
) -> None:
    now = json_of(running.command("status", "sight", "--json"))
    assert now.keys() == json_of(running.command("status", "site", "--json")).keys()
    assert (now["state"], now["discovered"], now["balance"]) == ("empty", 0, 0)


def test_status_without_a_name_is_that_of_all_crawls(running: Fleet) -> None:
    listed = running.command("status")
    assert (listed.returncode, listed.stdout.split()[:2]) == (0, ["crawl", "spider"])
    assert "site" in listed.stdout and "running" in listed.stdout
    [now] = json_of(running.command("status", "--json"))
    assert now.keys() >= STATUS_FIELDS and now["crawl"] == "site"


def test_status_of_a_running_crawl_balances_and_names_its_workers(running: Fleet) -> None:
    now = json_of(running.command("status", "site", "--json"))
    assert now.keys() >= STATUS_FIELDS
    assert (now["state"], now["balance"]) == ("running", 0)
    [worker] = now["workers"]
    assert worker["pid"] == running.workers[0].process.pid
    assert worker["alive"] is True and worker["memory"] > 0
    assert worker["host"] == socket.gethostname() and worker["heartbeat_s"] >= 0
    assert now["seen"].keys() >= {"capacity", "items", "expected_fp", "measured_fp"}
    text = running.command("status", "site").stdout
    assert "site: running" in text and worker["name"] in text


def test_status_of_a_finished_crawl_is_its_ledger(finished: Fleet, web: DemoServer) -> None:
    now = json_of(finished.command("status", "site", "--json"))
    expected = web.web.expected(web.seeds[:1])
    assert (now["state"], now["balance"], now["workers"]) == ("finished", 0, [])
    assert now["done"] == len(expected.pages | expected.redirects | expected.non_html)
    assert now["dead"] == len(expected.missing)
    assert sum(now["filtered"].values()) + now["done"] + now["dead"] == now["discovered"]
    watched = finished.command("status", "site", "--watch")
    assert watched.returncode == 0 and "site: finished" in watched.stdout


def test_pause_resume_and_stop_reach_a_running_worker(running: Fleet) -> None:
    paused = running.command("pause", "site", "--json")
    assert (paused.returncode, json_of(paused)) == (0, {"state": "paused"})
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
def test_nothing_can_be_told_to_a_crawl_that_is_not_there(fleet: Fleet, name: str) -> None:
    told = fleet.command(name, "site", "--json")
    assert (told.returncode, json_of(told)["state"]) == (1, "empty")


def test_nothing_can_be_told_to_a_crawl_that_has_finished(finished: Fleet) -> None:
    for name in ("pause", "resume", "stop"):
        told = finished.command(name, "site")
        assert told.returncode == 1
        assert "finished" in told.stdout and told.stderr == ""
    assert_one_line(finished.command("purge", "site"), 2, "add --yes")


def test_resuming_without_a_worker_says_that_none_is_running(running: Fleet) -> None:
    running.command("pause", "site")
    running.workers[0].signal(signal.SIGTERM)
    running.wait(60)
    resumed = running.command("resume", "site")
    assert (resumed.returncode, resumed.stderr) == (0, "")
    assert "no worker is running; start workers with scrapy crawl site" in resumed.stdout


def test_purge_waits_until_no_worker_runs_and_then_leaves_nothing(
    running: Fleet, redis_server: RedisServer
) -> None:
    refused = running.command("purge", "site", "--yes")
    assert refused.returncode == 1
    assert "1 worker is at it; scrapy stop site first" in refused.stdout
    redis_server.cli("lpush", "site:start_urls", "nonsense")
    running.workers[0].wait_for_log("Seed refused")
    redis_server.cli("set", "mine", "kept")
    running.command("stop", "site")
    running.wait(20)
    purged = running.command("purge", "site", "--yes", "--json")
    assert (purged.returncode, json_of(purged)) == (0, {"purged": True})
    assert redis_server.cli("keys", "*") == "mine"
    assert running.status()["state"] == "empty"


def test_workers_that_died_do_not_keep_a_crawl_from_being_purged(
    fleet: Fleet, large_web: DemoServer, redis_server: RedisServer
) -> None:
    worker = fleet.start({"FRONTIER_LEASE_TIMEOUT": "1"}, seeds=large_web.seeds[0], delay=0.5)
    wait_for(lambda: fleet.status()["done"], "a page", 20)
    worker.kill()
    wait_for(lambda: not fleet.status()["workers"][0]["alive"], "it counts as dead", 5)
    assert "silent" in fleet.command("status", "site").stdout
    assert fleet.command("purge", "site", "--yes").returncode == 0
    assert redis_server.cli("keys", "*") == ""


# Files


def test_merge_without_files_is_a_no_in_one_line(fleet: Fleet) -> None:
    assert_one_line(in_output(fleet, "merge", "site"), 1, "site")


def test_a_question_in_sql_is_answered_for_people_and_for_scripts(finished: Fleet) -> None:
    sql = "SELECT count(*) AS pages FROM pages"
    done = finished.status()["done"]
    assert json_of(in_output(finished, "query", "site", sql, "--json")) == [{"pages": done}]
    assert in_output(finished, "query", "site", sql).stdout.split() == ["pages", "─────", str(done)]
    named = finished.output / "answer.json"
    assert in_output(finished, "query", "site", sql, "-o", str(named)).returncode == 0
    assert json.loads(named.read_text()) == [{"pages": done}]
    assert_one_line(in_output(finished, "query", "site", "SELECT 1 FROM pagse"), 2, "pages?")
    assert_one_line(in_output(finished, "query", "nowhere", sql), 1, "no crawl of that name")


def test_merge_makes_one_file_of_each_kind(finished: Fleet) -> None:
    merged = in_output(finished, "merge", "site", "--json")
    assert merged.returncode == 0
    rows = {kind["file"]: kind["rows"] for kind in json_of(merged)["kinds"]}
    assert rows["pages.csv"] == rows["pages.jsonl"] == finished.status()["done"]
    assert rows["failures.csv"] == finished.status()["dead"]


def test_a_json_feed_holds_pages_only_as_in_any_scrapy_project(
    tmp_path: Path, fleet: Fleet, web: DemoServer
) -> None:
    file = tmp_path / "pages.json"
    words = ["crawl", "site", "-O", str(file), "-a", f"seeds={web.seeds[0]}", "-a", "delay=0"]
    ended = in_output(fleet, *words)
    assert ended.returncode == 0
    pages = json.loads(file.read_text())
    assert sorted(page["url"] for page in pages) == sorted(fleet.urls())
    assert all("title" in page and "reason" not in page for page in pages)


def test_nothing_is_said_where_nobody_reads_any_more(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with (tmp_path / "error").open("w+b") as error, Path(os.devnull).open("rb") as nothing:
        words = ["plan", "--pages", "10", "--hosts", "1"]
        files = {"stdin": nothing.fileno(), "stdout": writing, "stderr": error.fileno()}
        planned = scrapy_process.start(words, dict(os.environ), PROJECT, **files)
        os.close(writing)
        planned.wait(60 * PATIENCE)
        error.seek(0)
        assert error.read() == b""


# A fleet


def test_a_fleet_crawls_to_the_end_and_shows_the_summary(fleet: Fleet, web: DemoServer) -> None:
    seeds = ["-a", f"seeds={web.seeds[0]}", "-a", "scope=any", "-a", "delay=0.4"]
    named = ["-s", "CRAWL_WORKER_ID=mine", *REACHES_ALL]
    ended = in_output(fleet, "fleet", "site", "-n", "2", *seeds, *named)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.count("worker-") == 2
    assert "Crawl site is finished" in ended.stdout
    logs = [log.read_text() for log in (fleet.output / "site").glob("worker-*.log")]
    assert sum("Crawl site is finished" in log for log in logs) == 1
    assert sum("(finished: " in log for log in logs) == 1
    summary = json.loads((fleet.output / "site" / "summary.json").read_text())
    assert sorted(summary["workers"]) == ["mine-1", "mine-2"]
    expected = web.web.expected(web.seeds[:1])
    assert sorted(fleet.urls()) == sorted(expected.pages | expected.redirects | expected.non_html)


def test_a_demo_that_is_interrupted_ends_its_workers_and_says_where_its_files_are(
    fleet: Fleet,
) -> None:
    words = ["demo", "--hosts", "3", "--pages", "200", "-s", f"CRAWL_OUTPUT={fleet.output}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "scrapy", *words],
        env=fleet.env,
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for(lambda: fleet.status("demo")["done"] > 2, "some pages", 60)
        # As a terminal does: to everyone in the foreground.
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60 * PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, "Traceback" in err) == (0, False), err
    assert f"Merged into {fleet.output / 'demo'}" in out
    now = fleet.status("demo")
    assert (now["state"], now["workers"], now["leased"]) == ("stopped", [], 0)


def test_a_fleet_whose_last_worker_could_not_take_its_leave_says_that_it_was_interrupted(
    fleet: Fleet, large_web: DemoServer
) -> None:
    words = ["fleet", "site", "-n", "2", "-a", f"seeds={large_web.seeds[0]}", "-a", "crawl=docs"]
    words += ["-a", "scope=any", "-s", f"CRAWL_OUTPUT={fleet.output}", *REACHES_ALL]
    said = Worker(words, fleet.env, PROJECT, fleet.folder / "fleet.log")
    try:
        wait_for(lambda: len(fleet.status("docs")["workers"]) == 2, "two workers", 20)
        wait_for(lambda: fleet.status("docs")["done"] > 2, "some pages", 20)
        stuck = fleet.status("docs")["workers"][0]["pid"]
        os.kill(stuck, signal.SIGSTOP)
        said.signal(signal.SIGINT)
        wait_for((fleet.output / "docs/summary.txt").exists, "the other's summary", 30)
        os.kill(stuck, signal.SIGKILL)
        said.wait()
    finally:
        said.kill()
    again = "scrapy crawl site -a crawl=docs goes on with it\n"
    assert f"Crawl docs was interrupted; {again}" in said.log


def test_ctrl_c_lets_a_fleet_return_what_it_holds(fleet: Fleet, large_web: DemoServer) -> None:
    seeds = ["-a", f"seeds={large_web.seeds[0]}", "-a", "scope=any", "-a", "delay=0.3"]
    output = ["-s", f"CRAWL_OUTPUT={fleet.output}", *REACHES_ALL]
    process = subprocess.Popen(
        [sys.executable, "-m", "scrapy", "fleet", "site", "-n", "2", *seeds, *output],
        env=fleet.env,
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: len(fleet.status()["workers"]) == 2, "two workers", 20)
        wait_for(lambda: fleet.status()["done"] > 2, "some pages", 20)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30 * PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert err == "stopping the workers; once more ends them at once\n"
    assert "Crawl site is stopped; scrapy crawl site goes on with it\n" in out
    now = fleet.status()
    assert (now["leased"], now["workers"], now["balance"]) == (0, [], 0)
    assert now["queued"] > 0
    assert len(fleet.urls()) == now["done"]
