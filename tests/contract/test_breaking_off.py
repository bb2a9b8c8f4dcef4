"""When a worker that does not reach Redis stops, seen from those who take over."""

from __future__ import annotations

from crawlproj.errors import NoLongerOurs
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Lease
from crawlproj.frontier.outcomes import Held, PutOff
from crawlproj.worker.certainty import SURE
from crawlproj.worker.exchange import Worker
from crawlproj.worker.outcome import BROKEN_OFF_MS, Patience
from tests.contract.mortal import Judged


def test_a_worker_is_unsure_some_time_before_others_count_it_as_dead() -> None:
    worker = Worker(Frontier(None, "c", "w"), Judged(), prefetch=4, lease_timeout_s=20)
    assert worker.is_sure
    worker._certainty.renewed_at -= SURE * 20 - 1
    assert worker.is_sure
    worker._certainty.renewed_at -= 2
    assert not worker.is_sure


def test_a_host_rests_after_a_request_that_its_server_may_still_be_working_on() -> None:
    held = Held(Lease(0, 7, "http://a", 0, b"\0\1/"), error=NoLongerOurs())
    held.decide(PutOff(BROKEN_OFF_MS))
    held.hold_ms, held.downloaded_at = BROKEN_OFF_MS, held.started_at
    settled = Patience(50, 1000, 4).settlement(held)
    assert (settled.verdict, settled.failed) == ("wait", 0)
    assert settled.hold_ms >= BROKEN_OFF_MS and settled.delay_ms >= BROKEN_OFF_MS
