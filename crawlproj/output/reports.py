"""What a worker reports about itself: rows of failures and stats, and that all rows are on disk.

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
from crawlproj.frontier.outcomes import Held
from crawlproj.frontier.records import summarise
from crawlproj.items import TRANSIENT, FailureItem, utc_timestamp
from crawlproj.output.feeds import FlushingFeedExporter

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
        for extension in self._crawler.extensions.middlewares:
            if isinstance(extension, FeedExporter):
                extension.item_scraped(row, spider)


class Reports:
    """Failures as rows, if the project wants them, and the feeds' flush."""

    def __init__(self, crawler: Crawler, worker: str, wanted: bool) -> None:
        self._crawler = crawler
        self._feeds = ReportFeeds(crawler)
        self._worker = worker
        self._wanted = wanted

    async def dead(self, held: Held, reason: str) -> None:
        """A URL that this worker gives up."""
        about = held.about
        await self._report(
            url=about.url,
            status=held.status,
            kind=held.kind,
            reason=reason,
            referer=about.referer,
            depth=about.depth,
            attempts=held.attempts,
        )

    async def lost(self, dead: list[tuple[str, float, bytes]]) -> None:
        """URLs that were lost with their workers too often."""
        for host, _, entry in dead:
            about = summarise(host, entry)
            await self._report(
                url=about.url,
                kind=TRANSIENT,
                reason="worker_lost",
                referer=about.referer,
                depth=about.depth,
                attempts=about.attempts,
            )

    async def _report(self, **columns: Any) -> None:
        if self._wanted:
            item = FailureItem(failed_at=utc_timestamp(), worker=self._worker, **columns)
            await self._feeds.send(item)

    def new_items(self) -> dict[str, int]:
        """How many items of the spider's own classes have come since this was last asked."""
        for extension in self._crawler.extensions.middlewares:
            if isinstance(extension, FlushingFeedExporter):
                return extension.new_items()
        return {}

    def flush_rows(self) -> None:
        """Have every row exported so far on disk, or raise OSError; in any thread. Rows of
        Scrapy's own exporter are handed to the operating system, which is all that it can."""
        for extension in self._crawler.extensions.middlewares:
            if isinstance(extension, FlushingFeedExporter):
                extension.flush()
            elif isinstance(extension, FeedExporter):
                for slot in extension.slots:
                    if slot.file is not None:
                        slot.file.flush()
