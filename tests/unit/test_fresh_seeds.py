"""Seeds that Redis may not have on disk yet."""

from __future__ import annotations

from crawlproj.worker.fresh_seeds import SYNCED_S, FreshSeeds
from tests.lua.helpers import A, seed

FIRST, SECOND = seed(A, "/1"), seed(A, "/2")


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_seeds_are_kept_until_their_server_has_lived_on_long_enough() -> None:
    clock = Clock()
    seeds = FreshSeeds(clock)
    seeds.note([FIRST])
    clock.now_s = SYNCED_S
    seeds.note([SECOND])
    clock.now_s += 1
    seeds.confirm()
    assert seeds.take_back() == [SECOND]
    assert seeds.take_back() == []


def test_time_in_which_no_server_answered_makes_nothing_safe() -> None:
    clock = Clock()
    seeds = FreshSeeds(clock)
    seeds.note([FIRST])
    clock.now_s = 100 * SYNCED_S
    assert seeds.take_back() == [FIRST]
