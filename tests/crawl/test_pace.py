"""The pace of single hosts: connections of their own, changed while the crawl runs, and holds that
reach what has been leased already. Judged at the origin."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from math import inf

import pytest

from crawlproj.operate.audit import RESOLUTION_S, smallest_slot_gap_s
from crawlproj.operate.request_log import most_concurrent
from tests.servers.fleet import Fleet
from tests.servers.origin import Answer, Origin, Reply, Request
from tests.servers.redis import wait_for

OPEN = {"ROBOTSTXT_OBEY": "False"}
RETRY_AFTER_S = 6
GRACE_S = 3.0
"""For requests that are on their way, and for half a second until another worker hears of it."""


def pages(number: int, delay_s: float = 0.0) -> Callable[[Request], Answer]:
    """A front page with links to so many others, and those."""

    def answer(request: Request) -> Answer:
        if request.path != "/":
            return Reply(delay_s=delay_s)
        return Reply(body="".join(f"<a href=/{n}>x</a>" for n in range(1, number)).encode())

    return answer


def test_a_host_may_have_connections_of_its_own(fleet: Fleet) -> None:
    with (
        Origin({}, default=pages(12, 0.1)) as usual,
        Origin({}, default=pages(12, 0.1), address="127.0.0.2") as own,
    ):
        overrides = {"POLITENESS_OVERRIDES": json.dumps({"127.0.0.2": {"per_host": 1}})}
        for _ in range(2):
            seeds = f"{usual.url()},{own.url()}"
            fleet.start({**OPEN, **overrides}, seeds=seeds, delay=0, per_host=3)
        assert fleet.wait() == ["finished"] * 2
    assert most_concurrent(usual.requests())[usual.host] == 3
    assert most_concurrent(own.requests())[own.host] == 1


def test_a_pace_that_is_changed_while_the_crawl_runs_reaches_all_workers(fleet: Fleet) -> None:
    with Origin({}, default=pages(2000)) as origin:
        quick = {**OPEN, "FRONTIER_LEASE_TIMEOUT": 4}
        for _ in range(2):
            fleet.start(quick, seeds=origin.url(), delay=0.02)
        wait_for(lambda: len(origin.requests()) > 20, "a crawl that runs", 30)
        changed = fleet.command("pace", "site", "127.0.0.1", "--delay", "0.4", "--json")
        assert json.loads(changed.stdout) == {"127.0.0.1": {"delay": 0.4}}
        # As long as it takes until the last worker must have heard of it, or counts as dead.
        wait_for(lambda: last_gap_s(origin, 12) >= 0.4 - RESOLUTION_S, "the new pace", 60)
        settled = len(origin.requests())
        # A worker that starts later goes by it from its first request on.
        fleet.start(quick, seeds=origin.url(), delay=0.02)
        fleet.workers[2].wait_for_log("Joining the crawl")
        wait_for(lambda: len(origin.requests()) >= settled + 6, "requests at that pace", 30)
        slow = origin.requests()[settled - 1 :]
        assert (smallest_slot_gap_s(slow) or 0) >= 0.4 - RESOLUTION_S
        assert fleet.command("pace", "site", "127.0.0.1", "--reset").returncode == 0
        wait_for(lambda: last_gap_s(origin) < 0.3, "the old pace", 30)
        assert fleet.status()["balance"] == 0


def last_gap_s(origin: Origin, gaps: int = 1) -> float:
    """The smallest of the last gaps."""
    last = sorted(origin.requests())[-gaps - 1 :]
    return min(after.start_s - before.end_s for before, after in pairwise(last))


class Overloaded:
    """A host whose page /1 asks for rest; its other pages take their time until that is over."""

    slow_s = 4.0

    def __init__(self, number: int) -> None:
        self._pages = pages(number, self.slow_s)
        self._asked_s = inf

    def __call__(self, request: Request) -> Answer:
        if request.path == "/1" and request.attempt == 1:
            self._asked_s = request.start_s
            return Reply(503, {"Retry-After": str(RETRY_AFTER_S)}, delay_s=0.2)
        return Reply() if request.start_s > self._asked_s + RETRY_AFTER_S else self._pages(request)


@pytest.mark.parametrize("workers", [1, 2])
def test_what_was_leased_before_a_retry_after_does_not_start_after_it(
    fleet: Fleet, workers: int
) -> None:
    with Origin({}, default=Overloaded(12)) as origin:
        for _ in range(workers):
            # Two requests at a time, and two more of the same host in the worker's buffer.
            settings = {**OPEN, "CONCURRENT_REQUESTS": 2}
            fleet.start(settings, seeds=origin.url(), delay=0, per_host=8)
        assert fleet.wait() == ["finished"] * workers
    log = origin.requests()
    [asked] = [one for one in log if one.status == 503]
    over_s = asked.end_s + RETRY_AFTER_S - RESOLUTION_S
    assert [one for one in log if asked.end_s + GRACE_S < one.start_s < over_s] == []
    assert len(log) == 13
    assert fleet.status()["balance"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--delay", "2"], "give a host"),
        (["exa mple"], "is no host"),
        (["example.com", "--delay", "-1"], "give seconds, 0 to 86400"),
        (["example.com", "--delay", "soon"], "--delay"),
        (["example.com", "--per-host", "0"], "give a whole number, 1 to 1000000"),
        (["example.com", "--obey-robots", "perhaps"], "--obey-robots"),
        (["example.com", "--delay", "1", "--reset"], "--reset stands alone"),
    ],
)
def test_what_cannot_be_a_pace_is_refused_in_one_line(
    fleet: Fleet, words: list[str], said: str
) -> None:
    refused = fleet.command("pace", "site", *words)
    assert refused.returncode == 2
    assert said in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
