"""The settings of revisits."""

from __future__ import annotations

from dataclasses import dataclass

from crawlproj.config import choices
from crawlproj.config.kinds import AGE, BUDGET, one_of
from crawlproj.config.option import option


@dataclass(frozen=True)
class RefreshOptions:
    """Part of `Config`."""

    refresh: str | None = option(
        "CRAWL_REFRESH",
        None,
        BUDGET,
        "revisit pages: a budget of fetches such as 5/s or 200000/day, for all machines together; "
        "see docs/refresh.md",
        "refresh",
    )
    refresh_shortest_s: float = option(
        "CRAWL_REFRESH_SHORTEST", 60.0, AGE, "seconds before which no page is revisited"
    )
    refresh_longest_s: float = option(
        "CRAWL_REFRESH_LONGEST",
        30 * 86_400.0,
        AGE,
        "seconds after which every page is due, however little a visit does for freshness",
    )
    refresh_policy: str = option(
        "CRAWL_REFRESH_POLICY",
        choices.OPTIMAL,
        one_of(choices.OPTIMAL, choices.UNIFORM, choices.PROPORTIONAL),
        "how revisits are shared out: for the most freshness, all pages alike, or by how often "
        "they change",
    )
