"""What a worker has done, and what it tells about itself."""

from __future__ import annotations

import os

from crawlproj.engine.memory_limit import resident_bytes
from crawlproj.frontier.messages import Settlement
from crawlproj.running import Tally
from crawlproj.worker.heartbeat_report import HeartbeatReport


def test_what_was_settled_is_counted_as_the_frontier_counts_it() -> None:
    tally = Tally()
    ended = [
        Settlement(1, "done", size=100),
        Settlement(2, "dead", size=10, reason="http_404"),
        Settlement(3, "retry", size=1),
        Settlement(4, "filtered", reason="robots"),
        Settlement(5, "return"),
    ]
    tally.add((0, one) for one in ended)
    assert tally == Tally(pages=1, bytes=111, dead=1)


def test_the_rate_is_that_of_the_time_since_the_heartbeat_before() -> None:
    tally, now_s = Tally(), [100.0]
    heartbeat = HeartbeatReport(tally, 20.0, clock=lambda: now_s[0])
    assert heartbeat.fields(0)["pages_per_s"] == 0
    tally.pages, now_s[0] = 50, 105.0
    assert heartbeat.fields(0)["pages_per_s"] == 10
    tally.pages, now_s[0] = 60, 110.0
    assert heartbeat.fields(0)["pages_per_s"] == 2


def test_a_heartbeat_that_follows_at_once_says_the_same_again() -> None:
    tally, now_s = Tally(), [100.0]
    heartbeat = HeartbeatReport(tally, 20.0, clock=lambda: now_s[0])
    tally.pages, now_s[0] = 50, 105.0
    assert heartbeat.fields(3)["pages_per_s"] == 10
    tally.pages, now_s[0] = 51, 105.001
    again = heartbeat.fields(3)
    assert (again["pages"], again["pages_per_s"]) == (51, 10)


def test_a_worker_says_who_and_how_large_it_is_and_when_it_counts_as_dead() -> None:
    fields = HeartbeatReport(Tally(), 20.0).fields(7)
    assert (fields["pid"], fields["waiting"], fields["timeout_ms"]) == (os.getpid(), 7, 20_000)
    assert fields["host"] and 1_000_000 < resident_bytes() < 10**11
