"""What pipelines and feeds receive: one row of one output file each.

The columns of the output are written once, here: as the fields of these classes, in the order in
which the files show them. Nothing here knows who fills a row or where it is written.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any

from itemadapter import ItemAdapter


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
    lease: int = 0
    etag: str = ""
    last_modified: str = ""
    canonical: str = ""
    language: str = ""
    change: str = ""
    near_duplicate_of: str = ""


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
    request: str = ""
    lease: int = 0


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

COLUMNS: dict[type, tuple[str, ...]] = {
    PageItem: PAGE_COLUMNS,
    FailureItem: FAILURE_COLUMNS,
    StatsItem: STATS_COLUMNS,
}
_VALUES = {kind: attrgetter(*columns) for kind, columns in COLUMNS.items()}


class Fields:
    """A row of ours as a mapping, as ItemAdapter shows any item, at a tenth of its price."""

    __slots__ = ("_item",)

    def __init__(self, item: Any) -> None:
        self._item = item

    def __getitem__(self, name: str) -> Any:
        return getattr(self._item, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self._item, name, value)

    def get(self, name: str) -> Any:
        """The value of a field; None if there is no such field."""
        return getattr(self._item, name, None)

    def values(self) -> tuple[Any, ...]:
        """In the order of the columns."""
        found: tuple[Any, ...] = _VALUES[type(self._item)](self._item)
        return found

    def items(self) -> list[tuple[str, Any]]:
        """Names and values, in the order of the columns."""
        return list(zip(COLUMNS[type(self._item)], self.values(), strict=True))


def fields_of(item: Any) -> Fields | ItemAdapter:
    """The fields of any item, ours or not."""
    return Fields(item) if type(item) in COLUMNS else ItemAdapter(item)


TRANSIENT = "transient"
PERMANENT = "permanent"
FAILURE_KINDS = (TRANSIENT, PERMANENT)


def utc_timestamp(epoch_s: float | None = None) -> str:
    """ISO 8601 in UTC with milliseconds, of that moment or of now: `2025-01-31T09:05:00.250Z`.

    Always as long as any other, so that text order is time order.
    """
    moment_s = time.time() if epoch_s is None else epoch_s
    seconds, microseconds = divmod(round(moment_s * 1_000_000), 1_000_000)
    return f"{_to_the_second(seconds)}.{microseconds // 1000:03}Z"


@lru_cache(16)
def _to_the_second(epoch_s: int) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="seconds").removesuffix("+00:00")
