"""What pipelines and feeds receive: one row of one output file each.

The columns of the output are written once, here: as the fields of these classes, in the order in
which the files show them. Nothing here knows who fills a row or where it is written.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime


@dataclass(slots=True, kw_only=True)
class PageItem:
    """A page that was fetched. A redirect is a row of its own, with its 3xx status."""

    url: str
    status: int
    title: str = ""
    depth: int = 0
    priority: float = 0
    content_type: str = ""
    size: int = 0
    links: int = 0
    content_hash: str = ""
    fetched_at: str
    elapsed_ms: int = 0
    referer: str = ""
    worker: str
    redirect_to: str = ""


@dataclass(slots=True, kw_only=True)
class FailureItem:
    """A URL that ended dead or is broken. Status 0: there was no response."""

    url: str
    status: int = 0
    kind: str
    reason: str
    referer: str = ""
    depth: int = 0
    attempts: int = 0
    failed_at: str
    worker: str


@dataclass(slots=True, kw_only=True)
class StatsItem:
    """What one worker did in one interval, and how the frontier stood at its end."""

    at: str
    worker: str
    pages: int = 0
    pages_per_s: float = 0
    bytes: int = 0
    errors: int = 0
    queued: int = 0
    leased: int = 0
    hosts: int = 0


OUR_ITEMS = (PageItem, FailureItem, StatsItem)

PAGE_COLUMNS = tuple(field.name for field in fields(PageItem))
FAILURE_COLUMNS = tuple(field.name for field in fields(FailureItem))
STATS_COLUMNS = tuple(field.name for field in fields(StatsItem))

TRANSIENT = "transient"
PERMANENT = "permanent"
FAILURE_KINDS = (TRANSIENT, PERMANENT)


def utc_timestamp(epoch_s: float | None = None) -> str:
    """ISO 8601 in UTC with milliseconds, of that moment or of now: `2025-01-31T09:05:00.250Z`.

    Always as long as any other, so that text order is time order.
    """
    moment = datetime.now(UTC) if epoch_s is None else datetime.fromtimestamp(epoch_s, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
