"""The status of a crawl as people read it."""

from __future__ import annotations

from dataclasses import replace

from crawlproj.operate.host_status import HostStatus
from crawlproj.operate.status import Status, WorkerStatus
from crawlproj.operate.status_view import SHOWN_WORKERS, as_text, in_one_line

WORKER = WorkerStatus("w1", "box", 7, True, 2.0, 3, 1200, 5.5, 90_000_000, 0)
RUNNING = Status(
    "site",
    epoch="e1",
    state="running",
    discovered=100,
    queued=60,
    done=40,
    started_at="2025-01-31T09:00:00.000Z",
    elapsed_s=80.0,
    pages_per_s=0.75,
    estimate_s=240.0,
    bytes=4_000_000,
    workers=(WORKER,),
    hosts=2,
)


def test_what_runs_is_shown_with_its_rate_its_time_and_what_is_left() -> None:
    lines = as_text(RUNNING).splitlines()
    assert lines[0] == "site: running for 1 min 20 s"
    assert "  done                  40  0.8 pages/s now, 0.5 on average, 4.0 MB" in lines
    assert "  queued                60  4 min 00 s at least" in lines
    worker = ["w1", "box", "1,200", "5.5", "3", "90.0", "MB", "2", "s", "ago"]
    assert worker in [line.split() for line in lines]


def test_what_is_over_has_an_end_and_no_rate_of_now() -> None:
    ended = replace(
        RUNNING,
        state="finished",
        finished_at="2025-01-31T09:30:00.000Z",
        pages_per_s=0.0,
        estimate_s=None,
        workers=(),
    )
    lines = as_text(ended).splitlines()
    assert lines[0] == "site: finished after 1 min 20 s"
    assert "until 2025-01-31T09:30:00.000Z" in lines[1]
    assert "  done                  40  0.5 pages/s, 4.0 MB" in lines
    assert not any("worker" in line for line in lines)


def test_what_is_paused_is_not_said_to_have_been_so_for_the_time_that_it_ran() -> None:
    assert as_text(replace(RUNNING, state="paused")).startswith("site: paused after 1 min 20 s\n")


def test_a_silent_worker_is_told_from_the_others_and_many_are_cut_short() -> None:
    silent = replace(WORKER, alive=False, heartbeat_s=None)
    text = as_text(replace(RUNNING, workers=(silent, *[WORKER] * (SHOWN_WORKERS + 4))))
    assert f"{SHOWN_WORKERS + 5} workers" in text and "… and 5 more: --json" in text
    assert text.count("silent: its URLs will be queued again") == 1


def test_seeds_that_wait_and_many_reasons_are_told() -> None:
    reasons = {f"http_{number}": number for number in range(400, 410)}
    text = as_text(replace(RUNNING, dead=sum(reasons.values()), reasons=reasons, seeds_waiting=9))
    assert "http_409 409, http_408 408" in text and "others 1,606" in text
    assert "  seeds                  9  pushed and not taken in yet" in text


def test_a_host_that_is_left_alone_comes_with_its_reason() -> None:
    host = HostStatus("http://a", 3, failures=2, held=True, held_s=300.0, why="http_503")
    text = as_text(replace(RUNNING, held=(host,), slowest=(host,)))
    assert "    http://a  5 min 00 s  http_503" in text
    assert "failed 2 times in a row" in text


def test_the_host_that_decides_how_long_it_takes_is_named_and_no_other() -> None:
    slow = HostStatus("http://slow", 3, queued=100, pause_s=12.0, estimate_s=1200.0)
    now = replace(RUNNING, estimate_s=1200.0, estimate_bound="host", slowest=(slow,))
    assert "20 min 00 s at least, for http://slow cannot be read faster" in as_text(now)
    now = replace(now, estimate_s=360.0, estimate_bound="pages")
    assert "6 min 00 s at least, then the budget of pages is used up" in as_text(now)
    assert "cannot be read faster" not in as_text(replace(now, estimate_bound="workers"))


def test_one_line_says_the_most_important() -> None:
    line = in_one_line(RUNNING)
    assert line == "40 done (0.8/s), 60 queued, 0 leased, 0 dead, 2 hosts, 4 min 00 s left at least"


def test_one_line_says_what_keeps_workers_from_working() -> None:
    paused = in_one_line(replace(RUNNING, state="paused", estimate_s=None))
    assert paused.endswith("2 hosts; paused: scrapy resume site")
    unbegun = in_one_line(Status("docs"))
    assert (
        unbegun == "docs has not begun yet: without seeds its workers wait (scrapy seed docs URL)"
    )
