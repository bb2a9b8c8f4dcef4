"""Scrapy's stats, without the cost of looking up their methods.

Scrapy 2.19 wraps them, at every use, in a check for an argument that it no longer wants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.statscollectors import MemoryStatsCollector

if TYPE_CHECKING:
    from scrapy import Spider


class Stats(MemoryStatsCollector):
    """`STATS_CLASS`."""

    __getattribute__ = object.__getattribute__

    def inc_value(
        self, key: str, count: int = 1, start: int = 0, spider: Spider | None = None
    ) -> None:
        values: dict[str, Any] = self._stats
        values[key] = values.get(key, start) + count
