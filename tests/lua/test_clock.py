"""_clock.lua: what becomes of a crawl when the clock of its server is set."""

from __future__ import annotations

from typing import Any

import pytest

from crawlproj.frontier import script_calls
from crawlproj.frontier.messages import Reclaimed
from tests.lua.helpers import MINUTE_MS, A, B, HandCrawl, Worker, link

HOUR = 60
TICK_MS = 200
"""So often scripts write down when they ran (TICK_MS in _clock.lua): how long a step was is known
to within that."""
steps = pytest.mark.parametrize("minutes", [-HOUR, HOUR])


class Passing:
    """Lets time pass for worker and server alike while calls are on their way; and the server's
    clock be set on the way of the first."""

    def __init__(
        self,
        crawl: HandCrawl,
        monkeypatch: pytest.MonkeyPatch,
        stalls_ms: list[int],
        step_ms: int = 0,
    ) -> None:
        self._crawl = crawl
        self._stalls_ms, self._step_ms = stalls_ms, step_ms
        self._passed_ms = 0
        clock_s = script_calls.clock_s
        monkeypatch.setattr(script_calls, "clock_s", lambda: clock_s() + self._passed_ms / 1000)

    def begin(self, worker: Worker) -> None:
        """With the next call of this worker."""
        shard, run = worker.shard, worker.shard.run

        async def stalled(name: str, args: list[Any], client: Any = None) -> Any:
            if self._stalls_ms:
                stall_ms = self._stalls_ms.pop()
                self._passed_ms += stall_ms
                self._crawl.step((stall_ms + self._step_ms) / MINUTE_MS)
                self._step_ms = 0
            return await run(name, args, client)

        shard.run = stalled  # type: ignore[method-assign]


def _resting_for_five_minutes(crawl: HandCrawl) -> Worker:
    """A worker that holds a URL of B, while A rests and has a second URL."""
    worker = crawl.worker(timeout_minutes=10)
    worker.push(link(A, "/1"), link(A, "/2"), link(B, "/1"))
    first, _ = worker.lease().leases
    worker.done(first, pause_ms=5 * MINUTE_MS)
    return worker


@steps
def test_a_host_rests_as_long_as_it_would_have(crawl: HandCrawl, minutes: int) -> None:
    crawl.open()
    worker = _resting_for_five_minutes(crawl)
    crawl.step(minutes)
    batch = worker.lease()
    assert batch.leases == []
    assert 4 * MINUTE_MS < batch.next_due_ms < 6 * MINUTE_MS
    crawl.step(minutes)
    worker.push(link(A, "/3"))
    assert crawl.state().hosts[A].cooling == [5]


@steps
def test_nobody_takes_over_what_a_living_worker_holds(crawl: HandCrawl, minutes: int) -> None:
    crawl.open()
    worker = _resting_for_five_minutes(crawl)
    before = crawl.state()
    crawl.step(minutes)
    assert worker.reclaim() == Reclaimed(0, 0, [])
    assert crawl.state() == before


@steps
def test_a_crawl_lasts_as_long_as_it_would_have(crawl: HandCrawl, minutes: int) -> None:
    crawl.open(minutes=8)
    worker = _resting_for_five_minutes(crawl)
    crawl.step(minutes)
    worker.renew(10 * MINUTE_MS, {})
    crawl.at(7)
    assert worker.lease().state == "running"
    crawl.at(9)
    assert worker.lease().state == "stopping"


@steps
def test_the_time_that_others_are_told_is_that_of_the_scripts(
    crawl: HandCrawl, minutes: int
) -> None:
    crawl.open()
    worker = _resting_for_five_minutes(crawl)
    before_ms = worker.now_ms()
    crawl.step(minutes)
    worker.renew(MINUTE_MS, {})
    assert abs(worker.now_ms() - before_ms) < MINUTE_MS


@pytest.mark.parametrize("stalls", [1, 3])
def test_time_in_which_a_call_was_on_its_way_has_passed(
    crawl: HandCrawl, monkeypatch: pytest.MonkeyPatch, stalls: int
) -> None:
    """A server that stalls or sleeps for a minute with a call to answer has not been set."""
    passing = Passing(crawl, monkeypatch, [MINUTE_MS] * stalls)
    crawl.open(minutes=8)
    worker = _resting_for_five_minutes(crawl)
    before_ms = worker.now_ms()
    passing.begin(worker)
    batch = worker.lease()
    assert stalls * MINUTE_MS <= worker.now_ms() - before_ms < (stalls + 1) * MINUTE_MS
    assert batch.next_due_ms < (5 - stalls) * MINUTE_MS


def test_a_step_is_told_from_a_stall_that_it_comes_with(
    crawl: HandCrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    passing = Passing(crawl, monkeypatch, [MINUTE_MS], step_ms=HOUR * MINUTE_MS)
    crawl.open()
    worker = _resting_for_five_minutes(crawl)
    before_ms = worker.now_ms()
    passing.begin(worker)
    worker.lease()
    assert MINUTE_MS - TICK_MS <= worker.now_ms() - before_ms < 2 * MINUTE_MS


def test_time_in_which_nobody_asked_has_passed(crawl: HandCrawl) -> None:
    """All workers had died, or the server was away: one that comes then knows of no step."""
    crawl.open()
    _resting_for_five_minutes(crawl)
    crawl.step(HOUR)
    assert crawl.stranger("later").reclaim() == Reclaimed(1, 1, [])


def test_a_clock_that_was_set_back_while_nobody_asked_has_stood_still(crawl: HandCrawl) -> None:
    crawl.open()
    _resting_for_five_minutes(crawl)
    crawl.step(-HOUR)
    assert crawl.open(run="later").mode == "joined"
    assert crawl.worker("later").lease().next_due_ms < 6 * MINUTE_MS


def test_a_new_crawl_begins_with_the_time_of_the_server(crawl: HandCrawl) -> None:
    crawl.open()
    crawl.step(-HOUR)
    crawl.stranger().finish()
    crawl.open(run="later")
    seconds, _ = crawl.redis.time()
    began_ms = int(crawl.redis.hget(crawl.key("meta"), "started_ms"))
    assert abs(began_ms - seconds * 1000) < MINUTE_MS
