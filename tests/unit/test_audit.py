"""The arithmetic of politeness, and every log that it is read from."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlproj.errors import CrawlError
from crawlproj.items import PAGE_COLUMNS
from crawlproj.operate.audit import Limits, audit, read_evidence, smallest_slot_gap_s
from crawlproj.operate.request_log import Logged, smallest_gap_s
from tests.servers import scrapy_process
from tests.servers.fleet import PROJECT

COMBINED = (
    '10.0.0.1 - - [31/Jan/2025:09:05:00 +0000] "GET {path} HTTP/1.1" 200 512 "-" "bot/1 \\"x\\"" '
)


def asked(start_s: float, end_s: float, path: str = "/", host: str = "a") -> Logged:
    return Logged(start_s, end_s, host, "GET", path, 200, 1, "bot")


def line_of(request: Logged) -> str:
    return "\t".join(map(str, request)) + "\n"


def test_the_gap_runs_from_the_end_of_a_request_to_the_start_of_the_next() -> None:
    log = [asked(0, 2), asked(2.5, 3), asked(3.25, 4)]
    assert smallest_slot_gap_s(log) == 0.25


def test_a_single_request_has_no_gap() -> None:
    assert smallest_slot_gap_s([asked(0, 1)]) is None


def test_requests_that_overlap_have_a_negative_gap() -> None:
    assert smallest_slot_gap_s([asked(0, 5), asked(1, 2), asked(6, 7)]) == -4


def test_each_connection_rests_by_itself() -> None:
    log = [asked(0, 1), asked(0.1, 3), asked(2, 2.5), asked(3.25, 4)]
    assert smallest_slot_gap_s(log, slots=2) == 0.75
    assert smallest_slot_gap_s(log, slots=4) is None


@given(
    st.lists(
        st.tuples(st.floats(0, 100), st.floats(0, 10)).map(lambda t: asked(t[0], t[0] + t[1])),
        min_size=2,
        max_size=20,
    )
)
def test_with_one_connection_the_gap_is_that_of_the_demo_log(log: list[Logged]) -> None:
    assert smallest_slot_gap_s(log) == smallest_gap_s(log)["a"]


@given(st.integers(1, 4), st.lists(st.tuples(st.floats(0, 3), st.floats(0, 3)), max_size=30))
def test_a_crawler_that_keeps_the_pause_on_each_connection_is_never_accused(
    slots: int, steps: list[tuple[float, float]]
) -> None:
    pause_s, free_s, log = 1.0, [0.0] * slots, []
    for number, (late_s, lasts_s) in enumerate(steps):
        slot = number % slots
        start_s = free_s[slot] + late_s
        log.append(asked(start_s, start_s + lasts_s))
        free_s[slot] = start_s + lasts_s + pause_s
    assert not any(host.broken for host in audit(log, Limits(pause_s, slots)))


def test_a_host_is_accused_of_each_limit_that_it_broke_and_the_worst_comes_first() -> None:
    log = [asked(0, 1, host="fine"), asked(2, 3, host="fine")]
    log += [asked(0, 1, host="quick"), asked(1.5, 2, host="quick")]
    log += [asked(0, 1, host="crowded"), asked(0.5, 2, host="crowded")]
    found = {host.host: host.broken for host in audit(log, Limits(1.0))}
    assert list(found) == ["crowded", "quick", "fine"]
    assert found == {"crowded": ("delay", "per_host"), "quick": ("delay",), "fine": ()}


def test_a_gap_may_be_short_by_the_resolution_of_the_clock_and_no_more() -> None:
    assert audit([asked(0, 1), asked(1.4995, 2)], Limits(0.5))[0].broken == ()
    assert audit([asked(0, 1), asked(1.4985, 2)], Limits(0.5))[0].broken == ("delay",)


def test_the_gap_is_that_of_the_connections_it_had_and_not_of_those_it_might_have_had() -> None:
    one_by_one = [asked(0, 1), asked(1.25, 2), asked(2.5, 3)]
    [host] = audit(one_by_one, Limits(0.5, per_host=4))
    assert (host.smallest_gap_s, host.most_at_once, host.broken) == (0.25, 1, ())
    two_at_once = [*one_by_one, asked(0, 2.75)]
    [host] = audit(two_at_once, Limits(0.5, per_host=4))
    assert (host.smallest_gap_s, host.most_at_once, host.broken) == (0.25, 2, ())


def test_it_tells_whether_robots_txt_came_first_and_how_often() -> None:
    log = [asked(0, 1, "/robots.txt"), asked(2, 3), asked(4, 5, "/robots.txt")]
    log += [asked(0, 1, host="b"), asked(2, 3, "/robots.txt", host="b")]
    told = {host.host: (host.robots_txt, host.robots_first) for host in audit(log, Limits(0))}
    assert told == {"a": (2, True), "b": (1, False)}


JSON_LINE = json.dumps({"start": 1.5, "end": 2, "url": "https://e.com:8443/p?q=1", "status": 200})
ROW = {"url": "http://e.com/a,b", "status": "200", "fetched_at": "1970-01-01T00:00:02.000Z"}
ROW |= {"title": '"two\n\nlines"', "elapsed_ms": "500", "worker": "w1"}
CSV = (
    ",".join(PAGE_COLUMNS)
    + "\r\n"
    + ",".join(
        f'"{value}"' if "," in (value := ROW.get(name, "")) else value for name in PAGE_COLUMNS
    )
)


@pytest.mark.parametrize(
    ("text", "host", "path", "is_proof"),
    [
        (line_of(asked(1.5, 2, "/p")), "a", "/p", True),
        (JSON_LINE + "\n\n", "e.com:8443", "/p?q=1", True),
        ('{"start": 1.5, "end": 2, "host": "e", "path": "/"}', "e", "/", True),
        (COMBINED.format(path="/p") + "1.5 2", "-", "/p", True),
        ("e.com:80 " + COMBINED.format(path="/p") + "1.5 2.0", "e.com:80", "/p", True),
        ("e.com " + COMBINED.format(path="/p") + "2.000 0.500", "e.com", "/p", True),
        (CSV, "e.com", "/a,b", False),
        ("\ufeff" + CSV + "\r\n", "e.com", "/a,b", False),
    ],
)
def test_every_known_log_is_read(text: str, host: str, path: str, is_proof: bool) -> None:
    evidence = read_evidence("log", text.splitlines(keepends=True))
    assert evidence.is_from_origin == is_proof
    (request,) = evidence.requests
    assert (request.start_s, request.end_s) == (1.5, 2.0)
    assert (request.host, request.path) == (host, path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "log: no requests in it; give the demo web's log"),
        ("hello\n", "log: not a fetch log; give the demo web's log"),
        ("[1]\n", "log: not a fetch log"),
        (JSON_LINE + "\n{\n", "log, line 2: no request like those before it: '{'"),
        ('{"start": 1}\n', "log, line 1: no request"),
        ('{"start": 1, "end": 2, "url": "/p"}\n', "log, line 1: no request"),
        ('{"start": 1, "end": 2, "url": 7}\n', "log, line 1: no request"),
        ('{"start": 2, "end": 1, "url": "http://e/"}\n', "log, line 1: ends before it starts"),
        ('{"start": NaN, "end": 1, "url": "http://e/"}\n', "log, line 1: ends before it starts"),
        (line_of(asked(1, 2)) + "\n" + line_of(asked(1, 2))[:9], "log, line 3: no request"),
        (CSV.replace("1970", "year"), "log, line 4: not a row of pages-*.csv"),
        (CSV.replace("http://e.com", ""), "not a row of pages-*.csv"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(CrawlError) as refused:
        read_evidence("log", text.splitlines(keepends=True))
    assert str(refused.value).startswith(complaint) or complaint in str(refused.value)
    assert "\n" not in str(refused.value)


# The command


def scrapy_audit(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return scrapy_process.run(["audit", *map(str, words)], dict(os.environ), PROJECT)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "fetch.log"
    requests = [asked(0, 1, "/robots.txt"), asked(1.5, 2), asked(9, 9.5, host="b")]
    path.write_text("".join(map(line_of, requests)))
    return path


def test_the_command_says_who_kept_to_the_limits(log: Path) -> None:
    done = scrapy_audit(log, "--delay", "0.5", "--per-host", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "host  requests  smallest gap  most at once  robots.txt      verdict",
        "a            2       0.500 s             1  1 × first       keeps",
        "b            1             -             1  none            keeps",
        "",
        "3 requests to 2 hosts, which had to keep 0.5 s and 1 at a time: all did",
    ]


def test_the_command_ends_with_1_when_a_limit_was_broken(log: Path) -> None:
    done = scrapy_audit(log, "--delay", "2", "--json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert (report["delay_s"], report["per_host"], report["broken"]) == (2, 1, 1)
    assert report["hosts"][0]["broken"] == ["delay"]


def test_the_command_goes_by_the_settings_of_the_project(log: Path) -> None:
    settings = ("-s", "POLITENESS_DELAY=0.75", "-s", "POLITENESS_PER_HOST=2", "--json")
    report = json.loads(scrapy_audit(log, *settings).stdout)
    assert (report["delay_s"], report["per_host"], report["broken"]) == (0.75, 2, 0)


def test_the_command_says_that_our_own_files_are_no_proof(tmp_path: Path) -> None:
    part = tmp_path / "pages-w1.csv"
    part.write_text(CSV, newline="")
    done = scrapy_audit(part, part, "--per-host", "2")
    assert done.returncode == 0
    assert "2 requests to 1 host," in done.stdout
    assert "an origin's log is proof" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        ([], 2, "give a fetch log"),
        (["nowhere.log"], 2, "nowhere.log: cannot be read"),
        (["x", "--delay", "-1"], 2, "--delay: -1: give seconds, 0 to 86400"),
        (["x", "--per-host", "0"], 2, "--per-host: 0: give a whole number, 1 or more"),
        (["x", "--per-host", "many"], 2, "--per-host"),
    ],
)
def test_wrong_use_is_told_in_one_line(words: list[str], code: int, complaint: str) -> None:
    done = scrapy_audit(*words)
    assert done.returncode == code
    assert complaint in done.stderr or complaint in done.stdout
