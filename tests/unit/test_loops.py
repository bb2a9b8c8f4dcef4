"""How long a worker's loops collect what they exchange with Redis."""

from __future__ import annotations

import pytest

from crawlproj.worker.loops import before_lease_s, before_settling_s


@pytest.mark.parametrize("delay_s", [0.01, 0.1, 0.25, 1.0, 10.0])
def test_a_host_rests_hardly_longer_than_its_delay(delay_s: float) -> None:
    assert 0 < before_lease_s(delay_s) <= delay_s / 16


def test_where_no_host_rests_nothing_that_is_due_is_waited_for() -> None:
    assert before_lease_s(0) == 0
    assert before_settling_s(0, has_more=False) == 0


def test_what_has_ended_is_collected_for_longer_where_no_host_waits_for_it() -> None:
    assert before_settling_s(0, has_more=True) > before_settling_s(1.0, has_more=True)
