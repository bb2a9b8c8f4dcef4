"""All that a worker writes: feeds, tables, archive, store, and rows about itself.

Whatever it writes of a page is on disk (`flush_rows`, `store`) before the page is settled.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.extensions.feedexport import FeedExporter

from crawlproj.engine.feeds import hand_over
from crawlproj.engine.watch import EngineWatch
from crawlproj.output.failure_rows import FailureRows
from crawlproj.output.feeds import FlushingFeedExporter, file_name
from crawlproj.output.page_tables import PageTables, folder_of
from crawlproj.output.refused import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.crawler import Crawler

    from crawlproj.frontier.frontier import Frontier
    from crawlproj.frontier.messages import Lost
    from crawlproj.frontier.outcomes import Attempt
    from crawlproj.output.archive.recorder import ArchiveRecorder
    from crawlproj.output.store.writer import PageWriter
    from crawlproj.running import CloserReading, EarlierCrawl, FollowsLinks

logger = logging.getLogger(__name__)


class WorkerOutput:
    """What the worker is given to write with. Nothing is opened before its crawl wants it."""

    def __init__(self, crawler: Crawler, worker: str, wanted: bool) -> None:
        self._crawler = crawler
        self._failures = FailureRows(crawler, worker, wanted)
        self._worker = worker
        self.tables = PageTables(crawler)
        """Of links, attributes and what is extracted, if the crawl wants them."""
        self.store: PageWriter | None = None
        """Where pages are kept by URL, if they are (`open_store`)."""
        self._archive: ArchiveRecorder | None = None

    async def dead(self, attempt: Attempt, reason: str) -> None:
        """A URL that this worker gives up."""
        await self._failures.write_dead(attempt, reason)

    async def lost(self, dead: Iterable[Lost]) -> None:
        """URLs that were lost with their workers too often."""
        for one in dead:
            await self._failures.write_lost(one)

    async def refused(self, ended: Iterable[tuple[Attempt, int | None]]) -> None:
        """Pages of which rows are written, or may be, that do not count: this worker's own, or
        those of another worker's lease."""
        await self.tables.note_refused([self._refused(*one) for one in ended])

    def _refused(self, attempt: Attempt, other: int | None) -> Refused:
        """The lease of an attempt, or another worker's lease of the same URL."""
        if other is None:
            return Refused(attempt.about.url, attempt.lease.token, self._worker)
        return Refused(attempt.about.url, other)

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
