"""Budgets of fetches in a time: `5/s`, `200000/day`. Pure."""

from __future__ import annotations

import re

SECONDS_IN = {"s": 1, "min": 60, "h": 3600, "day": 86_400}
MOST_PER_S = 1e6

_BUDGET = re.compile(rf"(\d{{1,15}}(?:\.\d{{1,9}})?)/({'|'.join(SECONDS_IN)})")


def per_second(budget: str) -> float:
    """Fetches a second; raises ValueError for what is no budget."""
    found = _BUDGET.fullmatch(budget)
    rate = float(found[1]) / SECONDS_IN[found[2]] if found else 0.0
    if not 0 < rate <= MOST_PER_S:
        raise ValueError
    return rate
