"""The past of several shards as one, and what is told from it."""

from __future__ import annotations

from crawlproj.frontier.history import Moment, combined, memory_lasts_s, rates


def test_a_shard_without_a_moment_in_a_step_stands_as_before() -> None:
    one = [Moment(10, done=1, workers=2, memory=5), Moment(21, done=3, workers=1, memory=6)]
    other = [Moment(12, done=10, workers=2, memory=9)]
    assert combined([one, other], 10) == [
        Moment(12, done=11, workers=2, memory=9),
        Moment(21, done=13, workers=1, memory=6),
    ]


def test_the_last_moment_of_a_step_counts() -> None:
    assert combined([[Moment(10, done=1), Moment(19, done=2)]], 10) == [Moment(19, done=2)]


def test_rates_are_of_the_time_between_and_never_negative() -> None:
    moments = [Moment(0, done=0, dead=4), Moment(20, done=50, dead=2), Moment(20, done=60)]
    [only] = rates(moments)
    assert (only.at_s, only.pages, only.dead) == (20, 2.5, 0.0)


def test_memory_lasts_as_long_as_it_fills_at_the_pace_of_late() -> None:
    moments = [Moment(0, memory=100), Moment(10, memory=200)]
    assert memory_lasts_s(moments, 1200) == 100.0
    assert memory_lasts_s(moments, 0) is None
    assert memory_lasts_s(moments[::-1], 1200) is None
    assert memory_lasts_s(moments[:1], 1200) is None
    assert memory_lasts_s(moments, 150) == 0.0
