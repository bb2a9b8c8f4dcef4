"""Scrapy's feed exporter, with doors for what it decides by itself: when a file is full, whether a
name is taken. Each feed is served by itself, and what is being compressed can be pressed out.

What of feeds has a public interface is done by it: files are a storage (`FEED_STORAGES`), filters
and the names in URIs are options of a feed (`FEEDS`, `FEED_URI_PARAMS`).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from scrapy.extensions import feedexport
from scrapy.extensions.postprocessing import GzipPlugin, PostProcessingManager

from crawlproj.engine import plain

if TYPE_CHECKING:
    import asyncio

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred


class FeedExporter(plain.FeedExporter):
    """In the place of Scrapy's, among the EXTENSIONS."""

    def __init__(self, crawler: Crawler) -> None:
        self._lock = threading.Lock()
        super().__init__(crawler)

    # Doors

    def is_full(self, file: Any, uri_template: str) -> bool:
        """Whether the next row of a feed is to go to a new file."""
        return False

    def is_taken(self, storage: Any, uri_template: str) -> bool:
        """Whether a file of this name is not to be begun."""
        return False

    # What they lead to

    def check_names(self, spider: Spider) -> None:
        """Name the first file of every feed, or raise what is wrong with the URI."""
        for uri, options in self.feeds.items():
            try:
                params = self._get_uri_params(spider, options["uri_params"])
                feedexport.apply_uri_params(uri, params)
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"The feed {uri!r} cannot be named: {error!r}") from error

    def item_scraped(self, item: Any, spider: Spider) -> None:
        with self._lock:
            super().item_scraped(item, spider)

    def slot_for_next_row(self, slot: feedexport.FeedSlot) -> feedexport.FeedSlot:
        is_full = self.is_full(_target(slot), slot.uri_template)
        return self._next_file(slot) if is_full else slot

    def press_out(self) -> None:
        """Have what is still being compressed, or in a file's own buffer, go on its way."""
        with self._lock:
            for slot in self.slots:
                _flush_buffers(slot)

    def _next_file(self, slot: feedexport.FeedSlot) -> feedexport.FeedSlot:
        self._schedule_slot_close(slot, slot.spider)
        params = self._get_uri_params(slot.spider, slot.feed_options["uri_params"], slot)
        return self._start_new_batch(
            batch_id=slot.batch_id + 1,
            uri=feedexport.apply_uri_params(slot.uri_template, params),
            feed_options=slot.feed_options,
            spider=slot.spider,
            uri_template=slot.uri_template,
        )

    def _schedule_slot_close(
        self, slot: feedexport.FeedSlot, spider: Spider
    ) -> asyncio.Task[None] | Deferred[None]:
        _flush_buffers(slot)  # it is closed later on, and no flush knows of it till then
        return super()._schedule_slot_close(slot, spider)

    def _start_new_batch(
        self,
        batch_id: int,
        uri: str,
        feed_options: dict[str, Any],
        spider: Spider,
        uri_template: str,
    ) -> feedexport.FeedSlot:
        while self.is_taken(self._get_storage(uri, feed_options), uri_template):
            batch_id += 1
            params = self._get_uri_params(spider, feed_options["uri_params"])
            params["batch_id"] = batch_id
            uri = feedexport.apply_uri_params(uri_template, params)
        return super()._start_new_batch(batch_id, uri, feed_options, spider, uri_template)


def _target(slot: feedexport.FeedSlot) -> Any:
    """The file that a feed's rows come to in the end; None before the first."""
    file: Any = slot.file
    return file.file if isinstance(file, PostProcessingManager) else file


def _flush_buffers(slot: feedexport.FeedSlot) -> None:
    if isinstance(slot.file, PostProcessingManager):
        plugin: Any = slot.file.head_plugin
        while isinstance(plugin, GzipPlugin):
            plugin.gzipfile.flush()
            plugin = plugin.file
    elif slot.file is not None:
        slot.file.flush()


def hand_over(exporter: feedexport.FeedExporter) -> None:
    """Have the rows of an exporter that knows no flush with the operating system."""
    for slot in exporter.slots:
        _flush_buffers(slot)
