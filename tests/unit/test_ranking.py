"""Levels and strategies, by tables."""

from __future__ import annotations

import pytest

from crawlproj.discover.ranking import STRATEGIES, Candidate, opic
from crawlproj.frontier.levels import level
from crawlproj.urls import Url

LONG_QUERY = "?q=" + "x" * 49
SHORT_QUERY = "?q=" + "x" * 48


@pytest.mark.parametrize(
    ("priority", "expected"),
    [(0, 0), (-7, -7), (2.4, 2), (2.6, 3), (1000, 1000), (1001, 1000), (-(10**400), -1000)],
)
def test_a_priority_becomes_a_whole_level_within_bounds(priority: float, expected: int) -> None:
    assert level(priority) == expected


@pytest.mark.parametrize(
    ("path", "depth", "host_pages", "score"),
    [
        ("/", 0, 10, 100),
        ("/", 0, 9, 100),
        ("/", 1, 10, 90),
        ("/", 1, 9, 95),
        ("/", 3, 0, 75),
        ("/photo.jpg", 1, 10, 70),
        ("/report.PDF?download=1", 1, 10, 70),
        ("/photo.jpg/about", 1, 10, 90),
        ("/" + SHORT_QUERY, 1, 10, 90),
        ("/" + LONG_QUERY, 1, 10, 80),
        ("/" + "x" * 80, 1, 10, 90),
        ("/" + "x" * 81, 1, 10, 85),
        ("/a.zip" + LONG_QUERY + "x" * 60, 2, 0, 50),
        ("/", 10, 10, 0),
        ("/", 99, 0, 0),
    ],
)
def test_weighted_is_the_sum_of_what_is_known_of_a_link(
    path: str, depth: int, host_pages: int, score: int
) -> None:
    candidate = Candidate(Url("http://host.example", path), depth, host_pages)
    assert STRATEGIES["weighted"](candidate) == score


@pytest.mark.parametrize(("depth", "host_pages"), [(0, 0), (50, 3), (3, 10_000)])
def test_breadth_ranks_nothing(depth: int, host_pages: int) -> None:
    assert STRATEGIES["breadth"](Candidate(Url("http://a", "/x.jpg"), depth, host_pages)) == 0


@pytest.mark.parametrize(
    ("priority", "links", "share", "expected"),
    [
        (0, 1, 1, 0),
        (0, 4, 0.25, -8),
        (-8, 2, 0.18125, -10),
        (4, 0, 1.85, 4),
        (-(10**9), 1, 0.15, -11),
    ],
)
def test_opic_shares_out_what_a_priority_stands_for(
    priority: float, links: int, share: float, expected: int
) -> None:
    assert opic.share(priority, links) == pytest.approx(share)
    assert level(opic(Candidate(Url("http://a", "/"), 1, 0, share))) == expected


def test_a_seed_has_as_much_cash_as_any_other() -> None:
    assert opic(Candidate(Url("http://a", "/"), 0, 0)) == 0
