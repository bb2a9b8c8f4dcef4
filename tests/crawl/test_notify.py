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
from tests.servers.redis import RedisServer, wait_for

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
    over = message["done"] + message["dead"] + sum(message["filtered"].values())
    assert message["discovered"] == over


class Received(list[dict[str, object]]):
    """What was posted to a route."""

    def __call__(self, request: Request) -> Reply:
        self.append(json.loads(request.body))
        return Reply()

    @property
    def events(self) -> list[str]:
        return sorted(str(one["event"]) for one in self)


def test_a_lost_worker_is_posted_once(fleet: Fleet) -> None:
    received = Received()
    with Origin({**PAGES, "/hook": received}) as origin:
        own = {"FRONTIER_LEASE_TIMEOUT": "2", "CRAWL_NOTIFY": origin.url("/hook")}
        workers = [fleet.start(own, seeds=origin.url("/"), delay="0.12") for _ in range(3)]
        wait_for(lambda: fleet.status()["done"] and len(fleet.status()["workers"]) == 3, "all work")
        workers[0].signal(signal.SIGKILL)
        assert [worker.wait() for worker in workers[1:]] == ["finished"] * 2
        fleet.assert_settled()
    assert received.events == ["finished", "worker_lost"]


def test_a_crawl_that_stalls_and_then_runs_out_of_time_is_told_of_both(fleet: Fleet) -> None:
    received = Received()
    slow = {"/0": Reply(delay_s=2.5), "/hook": received}
    with Origin({**PAGES, **slow}) as origin:
        own = {"FRONTIER_LEASE_TIMEOUT": 2, "CRAWL_STALLED": 1, "CRAWL_NOTIFY": origin.url("/hook")}
        for _ in range(2):
            fleet.start(own, seeds=origin.url("/"), delay=0.5, minutes=0.07)
        assert fleet.wait() == ["stopped"] * 2
    # On a machine that is slow otherwise it may stall more than once.
    assert received.events.count("finished") == 1
    texts = {str(one["event"]): str(one["text"]) for one in received}
    assert "site: no page for 1 s" in texts["stalled"]
    assert "site: its time is up: " in texts["finished"] and " left" in texts["finished"]


def test_a_worker_that_cannot_go_on_tells_so_itself(
    fleet: Fleet, redis_server: RedisServer
) -> None:
    received = Received()
    with Origin({**PAGES, "/hook": received}) as origin:
        own = {"FRONTIER_LEASE_TIMEOUT": 2, "CRAWL_NOTIFY": origin.url("/hook")}
        fleet.start(own, seeds=origin.url("/"), delay=0.5)
        wait_for(lambda: fleet.status()["done"], "a page is done")
        with redis_server.client() as client:
            client.flushall()
        assert fleet.wait() == ["failed"]
    [told] = received
    assert (told["event"], told["crawl"]) == ("failed", "site")
    assert told["worker"] and "could not go on" in str(told["text"])


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
