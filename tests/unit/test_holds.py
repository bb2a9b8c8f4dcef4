"""What this worker knows of hosts that asked to be left alone."""

from __future__ import annotations

import pytest

from crawlproj.frontier.messages import Lease
from crawlproj.politeness import holds as holds_module
from crawlproj.politeness.holds import Holds

A = Lease(0, 1, "http://a.example", 0, b"", group="example")
B = Lease(0, 2, "http://b.example", 0, b"", group="example")
ALONE = Lease(0, 3, "http://alone", 0, b"")


def test_a_host_that_was_never_held_may_be_asked() -> None:
    holds = Holds(by_group=False)
    assert holds.left_ms(A) == 0
    holds.note(A, 60_000, for_group=False)
    assert holds.left_ms(B) == holds.left_ms(ALONE) == 0


@pytest.mark.parametrize("by_group", [True, False])
@pytest.mark.parametrize("for_group", [True, False])
def test_a_hold_is_the_groups_where_it_keeps_one_pace_and_the_server_asked(
    by_group: bool, for_group: bool
) -> None:
    holds = Holds(by_group=by_group)
    holds.note(A, 60_000, for_group=for_group)
    assert 50_000 < holds.left_ms(A) <= 60_000
    assert (holds.left_ms(B) > 0) == (by_group and for_group)


def test_a_shorter_hold_does_not_end_a_longer_one() -> None:
    holds = Holds(by_group=False)
    holds.update({ALONE.host: 60_000})
    holds.note(ALONE, 10, for_group=True)
    assert holds.left_ms(ALONE) > 50_000


def test_holds_that_are_over_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holds_module, "REMEMBERED", 10)
    holds = Holds(by_group=False)
    holds.update({f"http://h{number}": 0 for number in range(100)})
    assert holds.left_ms(ALONE._replace(host="http://h5")) == 0
    holds.update({ALONE.host: 60_000})
    assert holds.remembered == 1
