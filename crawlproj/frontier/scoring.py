"""Priority strategies: from what is known of a link to its priority. Pure.

A strategy is a function of one `Candidate`; a setting names it. Priorities become whole levels
from -1000 to 1000, and equal ones are served first come, first served.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from crawlproj.urls import Url, is_media

LOWEST, HIGHEST = -1000, 1000


class Candidate(NamedTuple):
    """What is known of a link when it is found."""

    url: Url
    depth: int
    domain_pages: int


Strategy = Callable[[Candidate], float]


def level(priority: float) -> int:
    """The queue that a priority belongs to."""
    return max(LOWEST, min(HIGHEST, round(priority)))


def breadth(_: Candidate) -> float:
    """First come, first served."""
    return 0


def weighted(candidate: Candidate) -> float:
    """100 less 10 a link away from the seed, 20 for media, 10 for a long query, 5 for a long
    URL, plus 5 for a domain with few pages so far; from 0 to 100."""
    path, _, query = candidate.url.path.partition("?")
    score = 100 - 10 * candidate.depth
    score -= 20 * is_media(path)
    score -= 10 * (len(query) > 50)
    score -= 5 * (len(candidate.url.host) + len(candidate.url.path) > 100)
    score += 5 * (candidate.domain_pages < 10)
    return max(0, min(100, score))


STRATEGIES: dict[str, Strategy] = {"breadth": breadth, "weighted": weighted}
