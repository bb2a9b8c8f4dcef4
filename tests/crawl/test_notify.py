"""CRAWL_NOTIFY and CRAWL_METRICS_PORT, with real workers."""

from __future__ import annotations

import json
import re
import signal
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.servers.fleet import Fleet, Worker
from tests.servers.origin import Origin, Reply, Request
from tests.servers.redis import wait_for

PAGES = {
    "/": Reply(body=b"".join(b"<a href=/%d>x</a>" % n for n in range(40))),
    **{f"/{n}": Reply() for n in range(40)},
}


def test_the_end_of_a_crawl_is_told_once_by_several_workers(fleet: Fleet, tmp_path: Path) -> None:
    file, script = tmp_path / "told.jsonl", tmp_path / "hook.sh"
    script.write_text(f'#!/bin/sh\n(cat; echo " $NOTIFY_EVENT") >> "{file}"\n')
    script.chmod(0o755)
    with Origin(PAGES) as origin:
        for _ in range(2):
            fleet.start({"CRAWL_NOTIFY": str(script)}, seeds=origin.url("/"), delay="0")
        fleet.wait()
    [line] = file.read_text().splitlines()
    told, _, event = line.rpartition(" ")
    message = json.loads(told)
    assert (message["event"], message["crawl"], message["done"]) == (event, "site", 41)
    assert event == "finished" and "41 pages" in message["text"]


def test_a_lost_worker_is_posted_once(fleet: Fleet) -> None:
    received: list[dict[str, object]] = []

    def hook(request: Request) -> Reply:
        received.append(json.loads(request.body))
        return Reply()

    with Origin({**PAGES, "/hook": hook}) as origin:
        own = {"FRONTIER_LEASE_TIMEOUT": "2", "CRAWL_NOTIFY": origin.url("/hook")}
        workers = [fleet.start(own, seeds=origin.url("/"), delay="0.12") for _ in range(3)]
        wait_for(lambda: fleet.status()["done"] and len(fleet.status()["workers"]) == 3, "all work")
        workers[0].signal(signal.SIGKILL)
        assert [worker.wait() for worker in workers[1:]] == ["finished"] * 2
        fleet.assert_settled()
    assert sorted(str(one["event"]) for one in received) == ["finished", "worker_lost"]


def port_of(worker: Worker) -> int:
    worker.wait_for_log("Metrics of this worker")
    found = re.search(r"Metrics of this worker: http://127.0.0.1:(\d+)/metrics", worker.log)
    assert found
    return int(found[1])


def test_workers_of_one_machine_tell_of_themselves_at_ports_of_their_own(fleet: Fleet) -> None:
    with Origin(PAGES) as origin:
        booted_s = time.monotonic()
        own = {"CRAWL_METRICS_PORT": "39410"}
        workers = [fleet.start(own, seeds=origin.url("/"), stay="true") for _ in range(2)]
        first, second = map(port_of, workers)
        assert first != second

        def told(port: int) -> dict[str, float]:
            url = f"http://127.0.0.1:{port}/metrics"
            text = urllib.request.urlopen(url, timeout=10).read().decode()
            lines = [one.rpartition(" ") for one in text.splitlines() if one[0] != "#"]
            return {name: float(value) for name, _, value in lines}

        measured = ("request", "redis", "event_loop_lag")
        counts = [f"crawl_worker_{name}_seconds_count" for name in measured]
        wanted = ["crawl_worker_pages_total", *counts]

        def has_measured_all() -> dict[str, float] | None:
            """One of them: the other may have had nothing to do."""
            answers = (told(port) for port in (first, second))
            return next((found for found in answers if all(map(found.get, wanted))), None)

        wait_for(has_measured_all, "a page is settled, all is measured")
        found = has_measured_all()
        assert found is not None
        assert found["crawl_worker_redis_seconds_sum"] < booted_s, "a call has no beginning"
        assert found["crawl_worker_memory_bytes"] > 10e6
        assert found["crawl_worker_disk_size_bytes"] > found["crawl_worker_disk_free_bytes"] > 0
        request = urllib.request.Request(f"http://127.0.0.1:{first}/metrics")
        request.add_header("Host", "attacker.example")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=10)
        with refused.value as error:
            assert error.code == 421


def test_metrics_beyond_loopback_need_a_token(fleet: Fleet) -> None:
    worker = fleet.start({"CRAWL_METRICS_PORT": "39410", "CRAWL_METRICS_HOST": "0.0.0.0"})
    worker.process.wait(60)
    assert "CRAWL_DASHBOARD_TOKEN" in worker.log
