"""When a worker that does not reach Redis stops, seen from those who take over."""

from __future__ import annotations

import pytest

from crawlproj.errors import NoLongerOurs
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Lease
from crawlproj.frontier.outcomes import Attempt, PutOff
from crawlproj.frontier.pacing import RetryDelay
from crawlproj.worker.exchange import Worker
from crawlproj.worker.heartbeat import VALID_SHARE
from crawlproj.worker.outcome import BROKEN_OFF_MS, RetryPolicy
from tests.contract.mortal import Judged, let_pass


def test_a_worker_is_unsure_some_time_before_others_count_it_as_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Worker(Frontier(None, "c", "w"), Judged(), connections=4, lease_timeout_s=20)
    assert worker.has_valid_leases
    let_pass(monkeypatch, VALID_SHARE * 20 - 1)
    assert worker.has_valid_leases
    let_pass(monkeypatch, VALID_SHARE * 20 + 1)
    assert not worker.has_valid_leases


def test_a_host_rests_after_a_request_that_its_server_may_still_be_working_on() -> None:
    attempt = Attempt(Lease(0, 7, "http://a", 0, b"\0\1/"), error=NoLongerOurs())
    attempt.decide(PutOff(BROKEN_OFF_MS))
    attempt.hold_ms, attempt.downloaded_at = BROKEN_OFF_MS, attempt.started_at
    settled = RetryPolicy(50, RetryDelay(1000, 60_000), 4).settlement(attempt)
    assert (settled.verdict, settled.failed) == ("wait", 0)
    assert settled.hold_ms >= BROKEN_OFF_MS and settled.delay_ms >= BROKEN_OFF_MS
