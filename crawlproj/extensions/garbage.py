"""Python's garbage collector, told what a worker is like.

What a worker has loaded when it begins lives as long as it does, and what a page leaves behind is
freed at once, without the collector: looking through all of it again and again took an eighth of
the time a page takes. So the start is exempt from collections, and they are rarer.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from scrapy import signals

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler

THRESHOLDS = (2_000, 20, 10)
"""Objects made and not freed before a collection of the youngest, and collections of each age
before one of the next. A callback that fails does leave a cycle behind, with its page in it: at
ten megabytes a page, some twenty of them are enough to wait for."""


class RareCollections:
    """Sets the collector when the spider opens, and as it was when it closes."""

    def __init__(self) -> None:
        self._before = gc.get_threshold()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        self = cls()
        crawler.signals.connect(self._opened, signals.spider_opened)
        crawler.signals.connect(self._closed, signals.spider_closed)
        return self

    def _opened(self) -> None:
        gc.collect()
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)

    def _closed(self) -> None:
        gc.set_threshold(*self._before)
        gc.unfreeze()
