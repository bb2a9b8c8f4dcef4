"""Scrapy's feed exports, made safe to settle by: rows are on disk, whole, when `flush()` returns.

The scheduler has `flush()` called, in a thread, before it settles the URLs whose rows these are.
Rows wait in memory until then, so a row is never half written by a buffer that happened to be
full, and a disk that is full costs nothing: `flush()` raises, nothing is settled, the rows stay
where they are and are written by the next call that can. On disk means synced: what Redis calls
done has its row after a power cut too.

Feeds work as everywhere in Scrapy (`-o`, `-O`, `FEEDS`), with three additions:

- A feed without `item_classes` and `item_filter` gets pages and the items of your own classes, not
  our failures and stats: `scrapy crawl site -O pages.json` holds pages. The files in `output/` are
  written beside it, since Scrapy adds `-o` and `-O` to the FEEDS of the settings.
- A feed with `%(batch_id)d` in its URI starts a new file when one is too large or too old
  (CRAWL_FEED_ROTATE_MB, CRAWL_FEED_ROTATE_MINUTES), and never adds to a file of an earlier run.
- `%(worker)s` and `%(crawl)s` in a URI, unless FEED_URI_PARAMS names a function of your own.

Only local files are on disk after a flush, plain or by gzip, which can be unpacked as far as it
goes. Those compressed otherwise or sent elsewhere (S3, FTP) are complete when they close, as in
Scrapy.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import Counter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from scrapy.extensions import feedexport
from scrapy.extensions.postprocessing import GzipPlugin, PostProcessingManager
from twisted.internet.threads import deferToThread

from crawlproj.config import Config, crawl_name
from crawlproj.errors import ConfigError
from crawlproj.items import (
    COLUMNS,
    FAILURE_COLUMNS,
    PAGE_COLUMNS,
    STATS_COLUMNS,
    FailureItem,
    PageItem,
    StatsItem,
)
from crawlproj.output.row_file import RowFile
from crawlproj.worker.identity import name_worker

if TYPE_CHECKING:
    import asyncio

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

logger = logging.getLogger(__name__)

BATCH_ID = re.compile(r"%\(batch_id\)")
MOST_CLASSES, OTHERS = 50, "others"
"""Classes of items that are counted each for itself, and what the rest is counted as."""
NOT_IN_A_FILE_NAME = re.compile(r"[^\w.-]+")


class OwnItems(feedexport.ItemFilter):
    """Of the feed of items: what spiders yield of classes that are not ours."""

    def accepts(self, item: Any) -> bool:
        return type(item) not in COLUMNS


def uri_params(params: dict[str, Any], spider: Spider) -> dict[str, Any]:
    """The default of FEED_URI_PARAMS: the names that a feed's URI may use beside Scrapy's own."""
    config = Config.from_settings(spider.crawler.settings)
    return {
        **params,
        "output": config.output,
        "crawl": crawl_name(spider.crawler.settings, spider),
        "worker": NOT_IN_A_FILE_NAME.sub("_", config.worker_id),
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
    } | {
        "%(output)s/%(crawl)s/items-%(worker)s-%(batch_id)04d.jsonl": {
            "format": "jsonl",
            "item_filter": OwnItems,
            "encoding": "utf-8",
            "overwrite": False,
            "store_empty": False,
            "uri_params": uri_params,
        }
    }


class FileFeedStorage(feedexport.FileFeedStorage):
    """Scrapy's local file, as a RowFile. It keeps its name: Scrapy counts by it in the stats."""

    def __init__(self, uri: str, opened: list[RowFile], feed_options: dict[str, Any]) -> None:
        super().__init__(uri, feed_options=feed_options)
        self._opened = opened

    def open(self, spider: Spider) -> IO[bytes]:
        file = RowFile(lambda: self._open_file(spider))
        self._opened[:] = [*(one for one in self._opened if not one.closed), file]
        return cast("IO[bytes]", file)

    def _open_file(self, spider: Spider) -> IO[bytes]:
        # Scrapy looks and then makes it, while others may be about to.
        Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        return super().open(spider)

    def store(self, file: IO[bytes]) -> Deferred[None]:
        return deferToThread(file.close)


class ForPeople(feedexport.ItemFilter):
    """Of a feed that names no classes: everything but the rows we write about ourselves."""

    def accepts(self, item: Any) -> bool:
        return not isinstance(item, (FailureItem, StatsItem))


class FlushingFeedExporter(feedexport.FeedExporter):
    def __init__(self, crawler: Crawler) -> None:
        self._files: list[RowFile] = []
        self._exporting = threading.Lock()
        self._own_items: Counter[str] = Counter()
        super().__init__(crawler)
        name_worker(crawler.settings)
        config = Config.from_settings(crawler.settings)
        self._rotate_bytes = config.feed_rotate_mb * 1024 * 1024
        self._rotate_s = config.feed_rotate_minutes * 60
        self._check_uris()

    def _check_uris(self) -> None:
        """Refuse a URI with unknown names now: when the spider opens, Scrapy would only log it."""
        for uri, options in self.feeds.items():
            if self.crawler.spider is None:
                return  # in `scrapy shell` there is none yet
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
        if type(item) not in COLUMNS:
            self._count(type(item).__name__)
        with self._exporting:
            slots: list[feedexport.FeedSlot] = []
            for slot in self.slots:
                self.slots = [slot]
                try:
                    if self._is_full(slot):
                        self.slots = [self._rotate(slot)]
                    super().item_scraped(item, spider)
                except Exception:
                    logger.exception("No row in %s for %s", slot.uri, item)
                    self.crawler.stats.inc_value("crawl/feeds/rows_refused")
                slots += self.slots
            self.slots = slots

    def _count(self, name: str) -> None:
        is_known = name in self._own_items or len(self._own_items) < MOST_CLASSES
        self._own_items[name if is_known else OTHERS] += 1

    def new_items(self) -> dict[str, int]:
        """How many items of each class, other than ours, have come since this was last asked."""
        found = {name: count for name, count in self._own_items.items() if count}
        if found:
            self._own_items = Counter(dict.fromkeys(self._own_items, 0))
        return found

    def flush(self) -> None:
        """Have every row exported so far on disk, or raise OSError. For any thread: it waits."""
        with self._exporting:
            for slot in self.slots:
                _press_out(slot)
            files = list(self._files)
        for file in files:
            file.save()

    def _is_full(self, slot: feedexport.FeedSlot) -> bool:
        file = _row_file(slot)
        if file is None:
            return False
        age_s = time.monotonic() - file.opened_at_s
        is_full = file.size >= self._rotate_bytes or age_s >= self._rotate_s
        return is_full and bool(BATCH_ID.search(slot.uri_template))

    def _schedule_slot_close(
        self, slot: feedexport.FeedSlot, spider: Spider
    ) -> asyncio.Task[None] | Deferred[None]:
        _press_out(slot)  # it is closed later on, and no flush knows of it till then
        return super()._schedule_slot_close(slot, spider)

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


def _row_file(slot: feedexport.FeedSlot) -> RowFile | None:
    """The local file that a feed's rows come to, if they do."""
    file: Any = slot.file
    if isinstance(file, PostProcessingManager):
        file = file.file
    return file if isinstance(file, RowFile) else None


def _press_out(slot: feedexport.FeedSlot) -> None:
    """Have what is still being compressed, or in a file's own buffer, go on its way."""
    if isinstance(slot.file, PostProcessingManager):
        plugin: Any = slot.file.head_plugin
        while isinstance(plugin, GzipPlugin):
            plugin.gzipfile.flush()
            plugin = plugin.file
    elif slot.file is not None:
        slot.file.flush()
