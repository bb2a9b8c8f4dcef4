"""The levels of a host's queues, from priorities and back. Pure.

Priorities become whole levels from -1000 to 1000, and equal ones are served first come, first
served. Where a crawl has a page budget its seeds stand above them all, in the order of their own
priorities: the budget is for what a user asked for, and then for links. Above everything stands a
robots.txt, without which no page of its host is fetched.
"""

from __future__ import annotations

LOWEST, HIGHEST = -1000, 1000
REVISIT = HIGHEST + 0.7
"""The level of pages that are revisited and whose turn it is at their host."""

MOVED, FIRST = HIGHEST + 0.9, HIGHEST + 1
"""The levels of a robots.txt that has moved to a host from another, and of the host's own."""

_SEED_STEPS = 4000
"""Steps from one level to the next, of which seeds have the lower half."""


def level(priority: float) -> int:
    """The queue that a priority belongs to."""
    return max(LOWEST, min(HIGHEST, round(priority)))


def seed_level(priority: float, *, has_page_budget: bool = True) -> float:
    """The queue of a seed. (Rounded: lua/_damage.lua has to come to the same number.)"""
    if not has_page_budget:
        return level(priority)
    return round(HIGHEST + (level(priority) - LOWEST + 1) / _SEED_STEPS, 5)


def is_robots_txt(level: float) -> bool:
    """Whether a robots.txt stands there: a host's own, or one that has moved to it."""
    return level >= MOVED


def priority_of(level: float) -> int:
    """The priority that a queue stands for."""
    if HIGHEST < level < REVISIT:
        return round((level - HIGHEST) * _SEED_STEPS) + LOWEST - 1
    return int(level)
