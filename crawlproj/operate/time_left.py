"""How long a crawl takes at least, and what does not let it be faster. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from crawlproj.frontier.finishing import UNSETTLED
from crawlproj.operate.host_status import HostStatus


class Bound(StrEnum):
    """What decides how long it takes."""

    NONE = ""
    """Nothing is left, or nothing is known."""
    WORKERS = "workers"
    """All that is known, at the rate at which they fetch."""
    HOST = "host"
    """The slowest one, by its queue, pause and connections."""
    PAGES = "pages"
    """The budget of pages, which is used up before all that is known is fetched."""


class TimeLeft(NamedTuple):
    """None if it is not known."""

    seconds: float | None = None
    bound: Bound = Bound.NONE


def estimate(
    pages: int | None, ledger: Mapping[str, int], rate: float, hosts: Iterable[HostStatus]
) -> TimeLeft:
    """Until all that is known is done, or the budget of pages is used up."""
    left = sum(ledger[name] for name in UNSETTLED)
    slowest_s = max((host.estimate_s for host in hosts), default=0.0)
    bound = Bound.WORKERS
    if pages is not None:
        # It may be used up long before the slowest host is through.
        slowest_s = 0.0
        if pages - ledger["done"] < left:
            left, bound = max(0, pages - ledger["done"]), Bound.PAGES
    seconds = left / rate if rate else 0.0
    if slowest_s > seconds:
        seconds, bound = slowest_s, Bound.HOST
    return TimeLeft(round(seconds, 1), bound) if round(seconds, 1) else TimeLeft()
