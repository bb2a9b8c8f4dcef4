"""Sets Python's garbage collector up for a worker.

What a worker has loaded when it begins lives as long as it does, and what a page leaves behind is
freed at once, without the collector: looking through all of it again and again took a sixth of
the time a page takes. So the start is exempt from collections, and they are rare.

Only what fails leaves cycles behind, with its page in them. Pages can be large and made to fail, so
their size is counted, and there is a collection before it is too much.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from scrapy import signals

from crawlproj.engine.watch import EngineWatch

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler

THRESHOLDS = (20_000, 20, 20)
"""Objects made and not freed before a collection of the youngest, and collections of each age
before one of the next."""
MOST_BYTES = 64 << 20
"""What failed pages may hold before they are collected."""
DOWNLOAD_BYTES = 1 << 20
"""What a failed download is taken to hold: how much had come is not known."""


class RareCollections:
    """Sets the collector when the spider opens, and as it was when it closes."""

    def __init__(self, watch: EngineWatch) -> None:
        self._watch = watch
        self._before = gc.get_threshold()
        self._bytes = 0

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        self = cls(EngineWatch(crawler))
        crawler.signals.connect(self._opened, signals.spider_opened)
        crawler.signals.connect(self._closed, signals.spider_closed)
        crawler.signals.connect(self._page_failed, signals.spider_error)
        crawler.signals.connect(self._page_failed, signals.item_error)
        return self

    def _opened(self) -> None:
        self._watch.on_download_error(lambda request, error: self._hold(DOWNLOAD_BYTES))
        gc.collect()
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)

    def _closed(self) -> None:
        gc.set_threshold(*self._before)
        gc.unfreeze()

    def _page_failed(self, response: Any) -> None:
        self._hold(len(getattr(response, "body", b"")))

    def _hold(self, size: int) -> None:
        self._bytes += size
        if self._bytes >= MOST_BYTES:
            self._bytes = 0
            gc.collect()
