"""The tables that a worker keeps of its pages beside the feeds, if its crawl wants them: links,
attributes, what is extracted. Nothing of one is imported before it is wanted."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from scrapy import signals

from crawlproj.config import Config, crawl_name
from crawlproj.output.feeds import file_name
from crawlproj.output.refused import Refused, note_refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    from crawlproj.output.attributes.table import AttributeTable
    from crawlproj.output.extract.table import ExtractTable
    from crawlproj.output.link_table import LinkTable
    from crawlproj.running import PageAttributes, PageExtraction


logger = logging.getLogger(__name__)


class _Rotation(TypedDict):
    """When a part is closed for the next."""

    rotate_bytes: float
    rotate_s: float


def folder_of(crawler: Crawler) -> Path:
    """Where the crawl's files are; it has the crawl's name."""
    settings = crawler.settings
    return Config.from_settings(settings).folder_of(crawl_name(settings, crawler.spidercls))


class PageTables:
    """Those of one worker. A crawl that begins anew in its place has others."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._links: LinkTable | None = None
        self._attributes: AttributeTable | None = None
        self._extracted: ExtractTable | None = None
        crawler.signals.connect(self._close, signals.spider_closed)

    def link_table(self) -> Callable[[bytes], None]:
        """Keep a table of links; returns what takes its rows."""
        from crawlproj.output.link_table import LinkTable

        if self._links is not None:  # of the crawl before, whose rows are on disk
            self._links.close()
        self._links = LinkTable(folder_of(self._crawler), self._worker, **self._rotation)
        return self._links.write

    def attribute_table(self, rule: str | None) -> PageAttributes:
        """Keep a table of what pages say of themselves, of those that satisfy the rule."""
        from crawlproj.output.attributes.table import AttributeTable

        if self._attributes is not None:
            self._attributes.close()
        self._attributes = AttributeTable(
            folder_of(self._crawler), self._worker, rule, **self._rotation
        )
        return self._attributes

    def extract_table(self, rules: str) -> PageExtraction:
        """Keep a table of what these rules find in pages."""
        from crawlproj.output.extract.table import ExtractTable

        if self._extracted is not None:
            self._extracted.close()
        self._extracted = ExtractTable(
            folder_of(self._crawler), self._worker, rules, **self._rotation
        )
        return self._extracted

    async def note_refused(self, refused: list[Refused]) -> None:
        """Leave a note that rows of these leases do not count."""
        try:
            folder = folder_of(self._crawler)
            await asyncio.to_thread(note_refused, folder, self._worker, refused)
        except OSError as error:
            logger.warning("Merging may count rows of pages that another has settled: %s", error)

    @property
    def is_behind(self) -> bool:
        """Whether so much waits to be read that no more pages should be begun."""
        return self._attributes is not None and self._attributes.is_behind

    def save(self) -> None:
        """Have every row on disk, or raise OSError; in any thread."""
        for table in (self._links, self._attributes, self._extracted):
            if table is not None:
                table.save()

    async def _close(self) -> None:
        for table in (self._links, self._extracted):
            if table is not None:
                table.close()
        if self._attributes is not None:
            await asyncio.to_thread(self._attributes.close)

    @property
    def _worker(self) -> str:
        return file_name(Config.from_settings(self._crawler.settings).worker_id)

    @property
    def _rotation(self) -> _Rotation:
        config = Config.from_settings(self._crawler.settings)
        return {
            "rotate_bytes": config.feed_rotate_mb * 1024 * 1024,
            "rotate_s": config.feed_rotate_minutes * 60,
        }
