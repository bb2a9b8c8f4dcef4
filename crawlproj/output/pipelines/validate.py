"""Drops a row of ours that lacks a field or holds the wrong type, and says why.

It looks only at the classes of `crawlproj.items`; the items of other spiders are theirs to check.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, get_type_hints

from scrapy.exceptions import DropItem

from crawlproj.items import FAILURE_KINDS, OUR_ITEMS, fields_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector

FIELD_TYPES = {item_class: get_type_hints(item_class) for item_class in OUR_ITEMS}
NEVER_EMPTY = {"url", "worker", "reason"}
TIMESTAMPS = {"fetched_at", "failed_at", "at"}
ONE_OF = {"kind": FAILURE_KINDS}
TIMESTAMP_FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
ANY_SIGN = {"priority"}
ANY_TEXT = {
    name
    for types in FIELD_TYPES.values()
    for name, wanted in types.items()
    if wanted is str and name not in (*NEVER_EMPTY, *TIMESTAMPS, *ONE_OF)
}
"""Fields that may hold any text: nothing else is asked of them."""


def problem(name: str, wanted: type, value: Any) -> str | None:
    """What is wrong with the value of a field, or None."""
    if wanted is str:
        return _text_problem(name, value)
    accepted = (int, float) if wanted is float else (int,)
    if isinstance(value, bool) or not isinstance(value, accepted):
        return f"must be {wanted.__name__}"
    if not math.isfinite(value):
        return "must be a finite number"
    if value < 0 and name not in ANY_SIGN:
        return "must not be negative"
    return None


def _text_problem(name: str, value: Any) -> str | None:
    if not isinstance(value, str):
        return "must be str"
    if name in NEVER_EMPTY and not value:
        return "must not be empty"
    if name in TIMESTAMPS and not TIMESTAMP_FORM.fullmatch(value):
        return "must be a time such as 2025-01-31T09:05:00.250Z"
    if name in ONE_OF and value not in ONE_OF[name]:
        return f"must be one of {', '.join(ONE_OF[name])}"
    return None


class ValidatePipeline:
    def __init__(self, stats: StatsCollector) -> None:
        self.stats = stats

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ValidatePipeline:
        assert crawler.stats is not None
        return cls(crawler.stats)

    def process_item(self, item: Any) -> Any:
        wanted = FIELD_TYPES.get(type(item))
        if wanted is None:
            return item
        for name, value in fields_of(item).items():
            kind = type(value)
            # Most fields are one of these two: they need not be looked at more closely.
            if kind is str and name in ANY_TEXT:
                continue
            if kind is int and wanted[name] is int and value >= 0:
                continue
            if wrong := problem(name, wanted[name], value):
                self._drop(type(item).__name__, name, f"{wrong}, not {value!r:.80}")
        return item

    def _drop(self, item_name: str, field: str, wrong: str) -> None:
        self.stats.inc_value("crawl/items/invalid")
        self.stats.inc_value(f"crawl/items/invalid/{item_name}.{field}")
        raise DropItem(f"{item_name}.{field} {wrong}", log_level="ERROR")
