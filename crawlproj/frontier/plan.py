"""The plan of a crawl as Redis keeps it: written by one version, read by another.

A paused crawl outlives an upgrade. What an older version did not write has the value by which it
went; a newer version is told from damage by its number, or by what it has beyond what is known.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from crawlproj.frontier.refusals import CrawlDamaged, CrawlNewer

VERSION = 1
"""To be raised when what is in a plan changes its meaning; names may be added without. Plans
without a number are older than all."""


def read(text: str) -> Any:
    """A plan as META holds it; raises CrawlDamaged if it cannot be read."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise CrawlDamaged("the plan") from None


def part(plan: Any, name: str, known: Collection[str]) -> dict[str, Any]:
    """The part of a plan that has this name, with some of the known entries or all of them; raises
    CrawlNewer or CrawlDamaged if it cannot be read."""
    if not isinstance(plan, dict) or type(plan.get("version", 0)) is not int:
        raise CrawlDamaged("the plan")
    kept = plan.get(name)
    if not isinstance(kept, dict):
        raise CrawlDamaged(f"the plan's {name}")
    if plan.get("version", 0) > VERSION:
        raise CrawlNewer(f"version {plan['version']}")
    if unknown := sorted(kept.keys() - set(known)):
        raise CrawlNewer(", ".join(unknown))
    return kept
