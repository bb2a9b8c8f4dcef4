"""Scrapy's feed exports, made safe to settle by: rows are on disk, whole, when `flush()` returns.

The scheduler calls `flush()` before it settles the URLs whose rows these are. Rows wait in memory
until then, so a row is never half written by a buffer that happened to be full, and a disk that is
full costs nothing: `flush()` raises, nothing is settled, the rows stay where they are and are
written by the next call that can.

Feeds work as everywhere in Scrapy (`-o`, `-O`, `FEEDS`), with three additions:

- A feed without `item_classes` and `item_filter` gets pages and the items of your own classes, not
  our failures and stats: `scrapy crawl site -O pages.json` holds pages. The files in `output/` are
  written beside it, since Scrapy adds `-o` and `-O` to the FEEDS of the settings.
- A feed with `%(batch_id)d` in its URI starts a new file when one is too large or too old
  (CRAWL_FEED_ROTATE_MB, CRAWL_FEED_ROTATE_MINUTES; 0 is never), and never adds to a file of an
  earlier run.
- `%(worker)s` and `%(crawl)s` in a URI, unless FEED_URI_PARAMS names a function of your own.

Only local files are on disk after a flush. Compressed feeds and those sent elsewhere (S3, FTP) are
complete when they close, as in Scrapy. Nothing here knows of the frontier.
"""

from __future__ import annotations

import io
import logging
import os
import re
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from scrapy.extensions import feedexport

from crawlproj.errors import ConfigError
from crawlproj.items import (
    FAILURE_COLUMNS,
    PAGE_COLUMNS,
    STATS_COLUMNS,
    FailureItem,
    PageItem,
    StatsItem,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Spider
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

OUTPUT = "output"
ROTATE_MB = 256
ROTATE_MINUTES = 60

# Rows are written by then even if nobody calls flush(), so that memory stays bounded.
WRITE_BEHIND_BYTES = 1 << 20

BATCH_ID = re.compile(r"%\(batch_id\)")
NOT_IN_A_FILE_NAME = re.compile(r"[^\w.-]+")


def uri_params(params: dict[str, Any], spider: Spider) -> dict[str, Any]:
    """The default of FEED_URI_PARAMS: the names that a feed's URI may use beside Scrapy's own."""
    settings = spider.crawler.settings
    worker = settings.get("CRAWL_WORKER_ID") or f"{socket.gethostname()}-{os.getpid()}"
    return {
        **params,
        "output": settings.get("CRAWL_OUTPUT") or OUTPUT,
        "crawl": spider.name,
        "worker": NOT_IN_A_FILE_NAME.sub("_", worker),
    }


def default_feeds() -> dict[str, dict[str, Any]]:
    """FEEDS of the project: the parts that each worker writes in `<CRAWL_OUTPUT>/<crawl>/`."""
    parts = (
        ("pages", "csv", PageItem, PAGE_COLUMNS),
        ("pages", "jsonl", PageItem, PAGE_COLUMNS),
        ("failures", "csv", FailureItem, FAILURE_COLUMNS),
        ("stats", "csv", StatsItem, STATS_COLUMNS),
    )
    return {
        f"%(output)s/%(crawl)s/{kind}-%(worker)s-%(batch_id)04d.{suffix}": {
            "format": suffix,
            "item_classes": [item_class],
            "fields": list(columns),
            "encoding": "utf-8",
            "overwrite": False,
            "store_empty": False,
            "uri_params": uri_params,
        }
        for kind, suffix, item_class, columns in parts
    }


class RowFile(io.BufferedIOBase):
    """A file that takes rows into memory and writes them when told to.

    The file itself is opened by the first writing, so that whatever is wrong with the place is
    raised there too, with every row still in hand.
    """

    def __init__(self, open_file: Callable[[], IO[bytes]]) -> None:
        self._open_file = open_file
        self._file: IO[bytes] | None = None
        self._pending = bytearray()
        self._closing = False
        self.opened_at_s = time.monotonic()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._pending += data
        if len(self._pending) >= WRITE_BEHIND_BYTES:
            with suppress(OSError):  # write_pending() raises it to a caller who can wait
                self.write_pending()
        return len(data)

    def write_pending(self) -> None:
        """Hand all to the operating system, or raise OSError and keep what it did not take."""
        if self._file is None:
            self._file = self._open_file()
        while self._pending:
            taken = os.write(self._file.fileno(), self._pending)
            del self._pending[:taken]
            self.size += taken
        if self._closing:
            self._file.close()
            super().close()

    def close(self) -> None:
        """Write and close. After an OSError the file stays open: the next writing closes it."""
        if not self.closed:
            self._closing = True
            self.write_pending()


class FileFeedStorage(feedexport.FileFeedStorage):
    """Scrapy's local file, as a RowFile. It keeps its name: Scrapy counts by it in the stats."""

    def __init__(self, uri: str, opened: list[RowFile], feed_options: dict[str, Any]) -> None:
        super().__init__(uri, feed_options=feed_options)
        self._opened = opened

    def open(self, spider: Spider) -> IO[bytes]:
        file = RowFile(lambda: super(FileFeedStorage, self).open(spider))
        self._opened.append(file)
        return cast("IO[bytes]", file)


class ForPeople(feedexport.ItemFilter):
    """Of a feed that names no classes: everything but the rows we write about ourselves."""

    def accepts(self, item: Any) -> bool:
        return not isinstance(item, (FailureItem, StatsItem))


class FlushingFeedExporter(feedexport.FeedExporter):
    def __init__(self, crawler: Crawler) -> None:
        self._files: list[RowFile] = []
        super().__init__(crawler)
        megabytes = self.settings.getfloat("CRAWL_FEED_ROTATE_MB", ROTATE_MB)
        minutes = self.settings.getfloat("CRAWL_FEED_ROTATE_MINUTES", ROTATE_MINUTES)
        self._rotate_bytes = megabytes * 1024 * 1024 or float("inf")
        self._rotate_s = minutes * 60 or float("inf")
        self._check_uris()

    def _check_uris(self) -> None:
        """Refuse a URI with unknown names now: when the spider opens, Scrapy would only log it."""
        for uri, options in self.feeds.items():
            assert self.crawler.spider is not None
            try:
                params = self._get_uri_params(self.crawler.spider, options["uri_params"])
                feedexport.apply_uri_params(uri, params)
            except (KeyError, TypeError, ValueError) as error:
                raise ConfigError(
                    f"The feed {uri!r} cannot be named: {error!r}. Use %(crawl)s, %(worker)s, "
                    "%(batch_id)d, %(time)s or an attribute of the spider."
                ) from error

    def item_scraped(self, item: Any, spider: Spider) -> None:
        """Export to each feed by itself: one that cannot take an item keeps it from no other."""
        slots: list[feedexport.FeedSlot] = []
        for slot in self.slots:
            self.slots = [slot]
            try:
                super().item_scraped(item, spider)
            except Exception:
                logger.exception("No row in %s for %s", slot.uri, item)
                self.crawler.stats.inc_value("crawl/feeds/rows_refused")
            slots += self.slots
        self.slots = slots

    def flush(self) -> None:
        """Every row exported so far is with the operating system, or OSError is raised."""
        for file in self._files:
            file.write_pending()
        self._files[:] = [file for file in self._files if not file.closed]
        for slot in self.slots:
            if slot.file is not None:
                slot.file.flush()
        self.slots = [self._rotate(slot) if self._is_full(slot) else slot for slot in self.slots]

    def _is_full(self, slot: feedexport.FeedSlot) -> bool:
        if not isinstance(slot.file, RowFile) or not BATCH_ID.search(slot.uri_template):
            return False
        age_s = time.monotonic() - slot.file.opened_at_s
        return slot.file.size >= self._rotate_bytes or age_s >= self._rotate_s

    def _rotate(self, slot: feedexport.FeedSlot) -> feedexport.FeedSlot:
        self._schedule_slot_close(slot, slot.spider)
        params = self._get_uri_params(slot.spider, slot.feed_options["uri_params"], slot)
        return self._start_new_batch(
            batch_id=slot.batch_id + 1,
            uri=feedexport.apply_uri_params(slot.uri_template, params),
            feed_options=slot.feed_options,
            spider=slot.spider,
            uri_template=slot.uri_template,
        )

    def _start_new_batch(
        self,
        batch_id: int,
        uri: str,
        feed_options: dict[str, Any],
        spider: Spider,
        uri_template: str,
    ) -> feedexport.FeedSlot:
        # A file of an earlier run may end in half a row: adding to it would spoil a whole one.
        while BATCH_ID.search(uri_template) and self._is_taken(uri, feed_options):
            batch_id += 1
            params = self._get_uri_params(spider, feed_options["uri_params"])
            params["batch_id"] = batch_id
            uri = feedexport.apply_uri_params(uri_template, params)
        return super()._start_new_batch(batch_id, uri, feed_options, spider, uri_template)

    def _is_taken(self, uri: str, feed_options: dict[str, Any]) -> bool:
        storage = self._get_storage(uri, feed_options)
        if not isinstance(storage, FileFeedStorage) or storage.write_mode != "ab":
            return False
        return Path(storage.path).exists()

    def _get_uri_params(
        self,
        spider: Spider,
        uri_params_function: str | feedexport.UriParamsCallableT | None,
        slot: feedexport.FeedSlot | None = None,
    ) -> dict[str, Any]:
        return super()._get_uri_params(spider, uri_params_function or uri_params, slot)

    def _get_storage(
        self, uri: str, feed_options: dict[str, Any]
    ) -> feedexport.FeedStorageProtocol:
        storage = super()._get_storage(uri, feed_options)
        if type(storage) is feedexport.FileFeedStorage:
            return FileFeedStorage(uri, self._files, feed_options)
        return storage

    def _load_filter(self, feed_options: dict[str, Any]) -> feedexport.ItemFilter:
        if feed_options.get("item_classes") or feed_options.get("item_filter"):
            return super()._load_filter(feed_options)
        return ForPeople(feed_options)
