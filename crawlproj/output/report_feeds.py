"""The way of rows that a worker writes about itself, failures and stats, to the feeds.

Such rows reach the feeds without passing the pipelines of a project, which are made for what its
spiders yield: one that reads `item["price"]` would raise, and one that stores items would mix them
up. Those that CRAWL_REPORT_PIPELINES names have asked for them.
"""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import DropItem
from scrapy.extensions.feedexport import FeedExporter
from scrapy.utils.misc import load_object

from crawlproj.config import Config
from crawlproj.engine.watch import EngineWatch

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)


class ReportFeeds:
    """The way of a report to the feeds. To be made before the spider is opened: what comes by then,
    for a worker hears of what others have lost when it joins, waits for pipelines and feeds."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._watch = EngineWatch(crawler)
        self._early: list[Any] | None = []
        crawler.signals.connect(self._open, signals.spider_opened)

    async def _open(self) -> None:
        early, self._early = self._early or [], None
        for item in early:
            await self.send(item)

    @cached_property
    def _pipelines(self) -> frozenset[type]:
        names = Config.from_settings(self._crawler.settings).report_pipelines
        return frozenset(map(load_object, names))

    async def send(self, item: Any) -> None:
        """Have a row written to each feed that takes it."""
        if self._early is not None:
            self._early.append(item)
            return
        try:
            row = await self._watch.process_item(item, self._pipelines)
        except DropItem as error:
            logger.error("No row of %s: %s", type(item).__name__, error)
            return
        except Exception:
            logger.exception("No row of %s: a pipeline failed", type(item).__name__)
            return
        spider = self._crawler.spider
        assert spider is not None
        for exporter in self._watch.extensions(FeedExporter):
            exporter.item_scraped(row, spider)
