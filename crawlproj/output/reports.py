"""What a worker reports about itself: rows of failures and stats, and that all rows are on disk.

Such rows reach the feeds without passing the pipelines of a project, which are made for what its
spiders yield: one that reads `item["price"]` would raise, and one that stores items would mix them
up. Those that CRAWL_REPORT_PIPELINES names have asked for them.
"""

from __future__ import annotations

import asyncio
import logging
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import DropItem
from scrapy.extensions.feedexport import FeedExporter
from scrapy.utils.misc import load_object

from crawlproj.config import Config
from crawlproj.engine.feeds import hand_over
from crawlproj.engine.watch import EngineWatch
from crawlproj.frontier.outcomes import Attempt
from crawlproj.frontier.records import EntrySummary
from crawlproj.items import TRANSIENT, FailureItem, utc_timestamp
from crawlproj.output.feeds import FlushingFeedExporter, file_name
from crawlproj.output.page_tables import PageTables, folder_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.crawler import Crawler

    from crawlproj.frontier.frontier import Frontier
    from crawlproj.output.archive.recorder import ArchiveRecorder
    from crawlproj.output.store.writer import PageWriter
    from crawlproj.running import CloserReading, EarlierCrawl, FollowsLinks

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


class Reports:
    """Failures as rows, if the project wants them, and the feeds' flush."""

    def __init__(self, crawler: Crawler, worker: str, wanted: bool) -> None:
        self._crawler = crawler
        self._feeds = ReportFeeds(crawler)
        self._worker = worker
        self._wanted = wanted
        self.tables = PageTables(crawler)
        """Of links, attributes and what is extracted, if the crawl wants them."""
        self.store: PageWriter | None = None
        """Where pages are kept by URL, if they are (`open_store`)."""
        self._archive: ArchiveRecorder | None = None

    async def dead(self, attempt: Attempt, reason: str) -> None:
        """A URL that this worker gives up."""
        about = attempt.about
        await self._report(
            url=about.url,
            status=attempt.answered,
            kind=attempt.kind,
            reason=reason,
            referer=about.referer,
            depth=about.depth,
            attempts=attempt.attempts,
        )

    async def lost(self, dead: Iterable[EntrySummary]) -> None:
        """URLs that were lost with their workers too often."""
        for about in dead:
            await self._report(
                url=about.url,
                kind=TRANSIENT,
                reason="worker_lost",
                referer=about.referer,
                depth=about.depth,
                attempts=about.attempts,
            )

    async def refused(self, ended: Iterable[tuple[Attempt, int | None]]) -> None:
        """Pages of which rows are written, or may be, that do not count: this worker's own, or
        those of another worker's lease."""
        refused = [
            (attempt.about.url, attempt.lease.token if other is None else other, other is None)
            for attempt, other in ended
        ]
        await self.tables.note_refused(self._worker, refused)

    async def _report(self, **columns: Any) -> None:
        if self._wanted:
            item = FailureItem(failed_at=utc_timestamp(), worker=self._worker, **columns)
            await self._feeds.send(item)

    @property
    def is_behind(self) -> bool:
        """Whether so much waits to be read or written that no more pages should be begun."""
        is_archive_behind = self._archive is not None and self._archive.is_behind
        return is_archive_behind or self.tables.is_behind

    async def open_store(self, address: str, frontier: Frontier) -> None:
        """Keep pages in a database; raises ConfigError if that cannot be written to."""
        if not getattr(self._crawler.spider, "stores_pages", False):
            logger.warning("CRAWL_STORE keeps pages of the spider site alone: none of this one's")
            return
        from crawlproj.output.store.opening import open_database
        from crawlproj.output.store.writer import PageWriter

        folder = folder_of(self._crawler)
        database = await asyncio.to_thread(open_database, address, folder)
        self.store = PageWriter(database, folder.name, lambda: frontier.shards[0].epoch)
        self.store.start()
        self._crawler.signals.connect(self.store.close, signals.spider_closed)

    def earlier_crawl(
        self, frontier: Frontier, follow: FollowsLinks, closer: CloserReading | None
    ) -> EarlierCrawl:
        """The crawl before, against which this one goes."""
        from crawlproj.output.earlier.opening import open_earlier

        earlier = open_earlier(self._crawler, frontier, follow, closer)
        self._crawler.signals.connect(earlier.close, signals.spider_closed)
        return earlier

    def keep_archive(self, frontier: Frontier) -> None:
        """Have archived what is downloaded from now on."""
        from crawlproj.output.archive import opening

        if self._archive is None:  # a worker that could not begin after all joins once more
            self._archive = opening.open_archive(self._crawler, frontier, file_name)
            self._crawler.signals.connect(self._archive.close, signals.spider_closed)

    def new_items(self) -> dict[str, int]:
        """How many items of the spider's own classes have come since this was last asked."""
        ours = self._crawler.get_extension(FlushingFeedExporter)
        return ours.new_items() if ours is not None else {}

    def flush_rows(self) -> None:
        """Have every row exported so far on disk, or raise OSError; in any thread. Rows of
        Scrapy's own exporter are handed to the operating system, which is all that it can."""
        self.tables.save()
        if self._archive is not None:
            self._archive.save()
        for exporter in EngineWatch(self._crawler).extensions(FeedExporter):
            if isinstance(exporter, FlushingFeedExporter):
                exporter.flush()
            else:
                hand_over(exporter)
