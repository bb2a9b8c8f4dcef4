"""Counts what is about to be written, in Scrapy's stats, under `crawl/…`.

| name | counts |
|---|---|
| crawl/pages, crawl/bytes | pages, and the bytes of their bodies |
| crawl/status/200, … | pages by status |
| crawl/content_type/text/html, … | pages by content type |
| crawl/host/example.com, … | pages by host |
| crawl/failures, crawl/failure/transient, … | failures, and by kind |
| crawl/reason/timeout, … | failures by reason |
| crawl/items | items of other classes |

Pages choose their hosts, types and reasons, so each of those lists is bounded: once it is full,
names not yet in it are counted together, as `other`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crawlproj.items import FailureItem, PageItem, StatsItem

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector

MOST_NAMES = {"status": 100, "content_type": 50, "host": 200, "reason": 100}
OTHER = "other"


def host_of(url: str) -> str:
    """Of a URL in its normal form, which has a path."""
    parts = url.split("/", 3)
    return parts[2] if len(parts) == 4 else ""


class StatsPipeline:
    def __init__(self, stats: StatsCollector) -> None:
        self.stats = stats
        self._names: dict[str, set[str]] = {group: set() for group in MOST_NAMES}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> StatsPipeline:
        assert crawler.stats is not None
        return cls(crawler.stats)

    def process_item(self, item: Any) -> Any:
        if isinstance(item, PageItem):
            self._count_page(item)
        elif isinstance(item, FailureItem):
            self._count_failure(item)
        elif not isinstance(item, StatsItem):
            self.stats.inc_value("crawl/items")
        return item

    def _count_page(self, page: PageItem) -> None:
        self.stats.inc_value("crawl/pages")
        self.stats.inc_value("crawl/bytes", page.size)
        self._count_in("status", str(page.status))
        self._count_in("content_type", page.content_type.partition(";")[0].strip().lower())
        self._count_in("host", host_of(page.url))

    def _count_failure(self, failure: FailureItem) -> None:
        self.stats.inc_value("crawl/failures")
        self.stats.inc_value(f"crawl/failure/{failure.kind}")
        self._count_in("reason", failure.reason)

    def _count_in(self, group: str, name: str) -> None:
        names = self._names[group]
        if name not in names:
            if len(names) >= MOST_NAMES[group]:
                name = OTHER
            else:
                names.add(name)
        self.stats.inc_value(f"crawl/{group}/{name or 'none'}")
