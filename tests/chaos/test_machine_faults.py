"""A worker's machine with a wrong clock, or without room on its disk."""

from __future__ import annotations

import resource
from datetime import datetime
from pathlib import Path

import pytest

from crawlproj.operate import control
from tests.chaos.harness import PATIENT, trial
from tests.servers.fleet import PROJECT
from tests.servers.redis import wait_for

WRONG_CLOCK = """
import datetime
import time

AHEAD_S = 600
_time, _time_ns, _datetime = time.time, time.time_ns, datetime.datetime


class Shifted(_datetime):
    @classmethod
    def now(cls, tz=None):
        return _datetime.now(tz) + datetime.timedelta(seconds=AHEAD_S)


time.time = lambda: _time() + AHEAD_S
time.time_ns = lambda: _time_ns() + AHEAD_S * 10**9
datetime.datetime = Shifted
"""


def test_a_worker_whose_clock_is_ten_minutes_ahead_works_like_any_other(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    (wrong / "sitecustomize.py").write_text(WRONG_CLOCK)
    with trial(tmp_path) as crawl:
        crawl.start(PATIENT, env={"PYTHONPATH": f"{wrong}:{PROJECT}"})
        crawl.wait_for_pages(1)
        assert crawl.fleet.at_frontier(control.pause).is_done  # or it would be through by itself
        crawl.start(PATIENT)
        wait_for(lambda: len(crawl.status()["workers"]) == 2, "the second worker")
        assert crawl.fleet.at_frontier(control.resume).is_done
        assert crawl.conclude()["reclaimed"] == 0
        rows = crawl.fleet.rows("pages")
    times: dict[str, list[datetime]] = {}
    for row in rows:
        times.setdefault(row["worker"], []).append(datetime.fromisoformat(row["fetched_at"]))
    first, second = sorted(min(own) for own in times.values())
    assert (second - first).total_seconds() > 300, "the clock was not wrong"


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs Linux to fill a disk later on")
def test_workers_wait_while_the_disk_is_full_and_go_on_when_it_is_not(tmp_path: Path) -> None:
    with trial(tmp_path) as crawl:
        worker = crawl.start(PATIENT)
        crawl.wait_for_pages(10)
        full = 1 + max(part.stat().st_size for part in crawl.fleet.output.rglob("pages-*"))
        _, most = resource.prlimit(worker.process.pid, resource.RLIMIT_FSIZE, (full, -1))
        worker.wait_for_log("Rows cannot be written")
        stopped = crawl.status()
        assert stopped["done"] <= len(set(crawl.fleet.urls()))
        resource.prlimit(worker.process.pid, resource.RLIMIT_FSIZE, (most, most))
        assert crawl.conclude()["reclaimed"] == 0
