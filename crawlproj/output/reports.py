"""What a worker reports about itself: rows of failures, and that all rows are on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.extensions.feedexport import FeedExporter

from crawlproj.frontier.records import glance
from crawlproj.items import TRANSIENT, FailureItem, utc_timestamp
from crawlproj.output.feeds import FlushingFeedExporter
from crawlproj.worker.outcome import Held

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from crawlproj.engine.watch import EngineWatch


class Reports:
    """Failures as items, if the project wants them, and the feeds' flush."""

    def __init__(self, crawler: Crawler, watch: EngineWatch, worker: str, wanted: bool) -> None:
        self._crawler = crawler
        self._watch = watch
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

    async def lost(self, dead: list[tuple[str, int, bytes]]) -> None:
        """URLs that were lost with their workers too often."""
        for host, _, entry in dead:
            about = glance(host, entry)
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
            await self._watch.process_item(item)

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
