"""Workers that end early: at their memory limit, or killed. `scrapy fleet` replaces them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter

import pytest

from crawlproj.demo import DemoServer, WebSpec
from crawlproj.engine.memory_limit import REPLACE_ME
from crawlproj.operate.fleet import MOST_REPLACED, WorkerSlot
from tests.servers.fleet import PROJECT, Fleet
from tests.servers.redis import wait_for

SPEC = WebSpec(hosts=4, pages=100).smooth()
POLITE = 0.2
"""Seconds between requests to a host: the crawl lasts for five, however fast the machine is."""


def _start(fleet: Fleet, web: DemoServer, *settings: str) -> subprocess.Popen[str]:
    words = ["-a", f"seeds={','.join(web.seeds)}", "-a", f"delay={POLITE}"]
    for setting in (f"CRAWL_OUTPUT={fleet.output}", "SEEN_CAPACITY=10000", *settings):
        words += ["-s", setting]
    return subprocess.Popen(
        [sys.executable, "-m", "scrapy", "fleet", "site", "-n", "1", *words],
        env=fleet.env,
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _end(process: subprocess.Popen[str]) -> str:
    try:
        return process.communicate(timeout=180)[0]
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(30)


def test_a_worker_at_its_memory_limit_hands_in_and_is_replaced(
    fleet: Fleet, web: DemoServer
) -> None:
    low = ("CRAWL_MEMORY_LIMIT_MB=1", "MEMUSAGE_CHECK_INTERVAL_SECONDS=3")
    process = _start(fleet, web, *low)
    said = _end(process)
    assert process.returncode == 0, said
    assert "reached its memory limit" in said
    expected = web.web.expected(web.seeds).pages
    assert Counter(fleet.urls()) == Counter(expected)
    now = fleet.status()
    assert (now["done"], now["balance"], now["reclaimed"]) == (len(expected), 0, 0)
    assert len(list((fleet.output / "site").glob("pages-*.csv"))) > 1


def test_a_killed_worker_is_replaced_and_nothing_is_lost(fleet: Fleet, web: DemoServer) -> None:
    process = _start(fleet, web, "FRONTIER_LEASE_TIMEOUT=3")
    try:
        wait_for(lambda: fleet.status()["done"] > 5, "pages are done", 60)
        [worker] = fleet.status()["workers"]
        os.kill(worker["pid"], signal.SIGKILL)
    finally:
        said = _end(process)
    assert process.returncode == 0, said
    assert f"process {worker['pid']} was killed (signal 9)" in said
    expected = web.web.expected(web.seeds).pages
    assert set(fleet.urls()) == set(expected)
    assert fleet.status()["balance"] == 0


def test_a_worker_alone_says_what_to_do_at_its_memory_limit(fleet: Fleet, web: DemoServer) -> None:
    low = {"CRAWL_MEMORY_LIMIT_MB": 1, "MEMUSAGE_CHECK_INTERVAL_SECONDS": 1}
    worker = fleet.start(low, seeds=web.seeds[0], delay=5)
    assert worker.wait() == "memory"
    assert worker.process.returncode == REPLACE_ME
    assert "start the worker again: nothing is lost" in worker.log
    now = fleet.status()
    assert (now["leased"], now["workers"], now["balance"]) == (0, [], 0)


def test_a_place_whose_workers_all_end_early_stays_empty() -> None:
    slot = WorkerSlot("worker 1", lambda: subprocess.Popen(["sh", "-c", f"exit {REPLACE_ME}"]))
    replaced = 0
    while slot.process.wait(10) == REPLACE_ME and slot.replace():
        replaced += 1
    assert replaced == MOST_REPLACED
    assert slot.failure.endswith(f"ended with {REPLACE_ME}, after 10 before it: see its log")


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_worker_that_has_said_why_it_ended_is_not_replaced(code: int) -> None:
    slot = WorkerSlot("worker 1", lambda: subprocess.Popen(["sh", "-c", f"exit {code}"]))
    slot.process.wait(10)
    assert slot.replace() == ""
    assert bool(slot.failure) == bool(code)


@pytest.mark.parametrize(
    ("ending", "has_lost"), [("exit 0", False), (f"exit {REPLACE_ME}", False), ("kill -9 $$", True)]
)
def test_a_worker_that_did_not_end_by_itself_is_a_lost_one(ending: str, has_lost: bool) -> None:
    ways = iter((ending, "exit 0"))
    slot = WorkerSlot("worker 1", lambda: subprocess.Popen(["sh", "-c", next(ways)]))
    slot.process.wait(10)
    assert slot.has_lost == has_lost
    slot.replace()
    slot.process.wait(10)
    assert slot.has_lost == has_lost


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_worker_that_is_told_to_end_before_it_has_begun_has_not_failed(number: int) -> None:
    slot = WorkerSlot("worker 1", lambda: subprocess.Popen(["sleep", "600"]))
    slot.tell(number)
    assert slot.process.wait(10) == -number
    assert (slot.failure, slot.has_lost) == ("", False)
