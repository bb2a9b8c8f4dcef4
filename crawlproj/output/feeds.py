"""Scrapy's feed exports, made safe to settle by: rows are on disk, whole, when `flush()` returns.

The worker (`worker/delivery.py`) has `flush()` called, in a thread, before it settles the URLs that
these rows are of. Rows wait in memory until then, so a row is never half written by a buffer that
happened to be full, and a disk that is full costs nothing: `flush()` raises, nothing is settled,
the rows stay where they are and are written by the next call that can. On disk means synced: what
Redis calls done has its row after a power cut too.

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

import glob
import re
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from scrapy.extensions import feedexport
from twisted.internet.threads import deferToThread
from w3lib.url import file_uri_to_path

from crawlproj.config import Config, crawl_name
from crawlproj.engine import parts
from crawlproj.engine.versions import is_tested
from crawlproj.errors import ConfigError
from crawlproj.items import COLUMNS, FailureItem, StatsItem
from crawlproj.output.gzip_rows import with_own_gzip
from crawlproj.output.items_file import ItemsFile, holds_items, lease_line
from crawlproj.output.kinds import ITEMS, JSONL, KINDS, LEASES_SUFFIX
from crawlproj.output.row_file import RowFile, open_with_folder
from crawlproj.worker.identity import name_worker

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.internet.defer import Deferred

BATCH_ID = re.compile(r"%\(batch_id\)")
MOST_CLASSES, OTHERS = 50, "others"
"""Classes of items that are counted each for itself, and what the rest is counted as."""
NOT_IN_A_FILE_NAME = re.compile(r"[^\w.-]+")


class OwnItems(feedexport.ItemFilter):
    """Of the feed of items: what spiders yield of classes that are not ours."""

    def accepts(self, item: Any) -> bool:
        return type(item) not in COLUMNS


def file_name(worker: str) -> str:
    """A worker's name as files have it."""
    return NOT_IN_A_FILE_NAME.sub("_", worker)


def uri_params(params: dict[str, Any], spider: Spider) -> dict[str, Any]:
    """The default of FEED_URI_PARAMS: the names that a feed's URI may use beside Scrapy's own."""
    config = Config.from_settings(spider.crawler.settings)
    found = {
        **params,
        "output": config.output,
        "crawl": crawl_name(spider.crawler.settings, spider),
        "worker": file_name(config.worker_id),
    }
    return found if is_tested() else {**found, "batch_id": _free_number(found)}


def _free_number(params: dict[str, Any]) -> int:
    """A number that no file of an earlier run has, where Scrapy's own exporter would begin with 1
    and add to a file that may be torn."""
    number = int(params["batch_id"])
    if number > 1:  # the one before may not be on disk yet
        return time.time_ns()
    folder = Path(params["output"], params["crawl"])
    while any(folder.glob(f"*-{glob.escape(params['worker'])}-{number:04d}.*")):
        number += 1
    return number


def default_feeds() -> dict[str, dict[str, Any]]:
    """FEEDS of the project: the parts that each worker writes in `<CRAWL_OUTPUT>/<crawl>/`."""
    feeds: list[tuple[str, str, dict[str, Any]]] = [
        (kind.name, suffix, {"item_classes": [kind.item], "fields": list(kind.columns)})
        for kind in KINDS
        if kind.item
        for suffix in kind.suffixes
    ]
    feeds.append((ITEMS, JSONL, {"item_filter": OwnItems}))
    of_all = {
        "encoding": "utf-8",
        "overwrite": False,
        "store_empty": False,
        "uri_params": uri_params,
    }
    return {
        f"%(output)s/%(crawl)s/{name}-%(worker)s-%(batch_id)04d.{suffix}": {
            "format": suffix,
            **options,
            **of_all,
        }
        for name, suffix, options in feeds
    }


class FeedFiles:
    """The files that the feeds of one exporter have open. Each of its feeds has it among its
    options, which is all that Scrapy gives to a storage."""

    def __init__(self) -> None:
        self._files: list[RowFile] = []
        self.response: Response | None = None
        """That the item came with which is being exported."""

    def open(self, path: Path, mode: str) -> RowFile:
        """One more; it is begun on disk when it is saved first."""
        if holds_items(path):
            file: RowFile = ItemsFile(path, mode, lambda: lease_line(self.response))
        else:
            file = RowFile(partial(open_with_folder, path, mode))
        self._files = [*(one for one in self._files if not one.closed), file]
        return file

    def save(self) -> None:
        """Have every row on disk, or raise OSError; in any thread."""
        for file in self._files:
            file.flush_encoder()
            file.save()


FILES = "crawlproj_files"
"""The option of a feed that holds its FeedFiles."""


class FileFeedStorage:
    """A local file: `FEED_STORAGES`. For an exporter that hands in its FeedFiles a RowFile, for
    another, who could not have it saved, a plain one. It has the name of Scrapy's, which counts by
    it in the stats."""

    def __init__(self, uri: str, *, feed_options: dict[str, Any] | None = None) -> None:
        options = feed_options or {}
        self._path = Path(file_uri_to_path(uri) if uri.startswith("file:") else uri)
        self._mode = "wb" if options.get("overwrite") else "ab"
        self._files: FeedFiles | None = options.get(FILES)

    @property
    def would_add(self) -> bool:
        """Whether there is a file already, to which rows would be added. Of items, the leases alone
        may be there, of a worker that was killed before it had its items on disk."""
        leases = self._path.with_suffix(LEASES_SUFFIX) if holds_items(self._path) else self._path
        return self._mode == "ab" and (self._path.exists() or leases.exists())

    def open(self, spider: Spider) -> IO[bytes]:
        if self._files is None:
            return open_with_folder(self._path, self._mode)
        return cast("IO[bytes]", self._files.open(self._path, self._mode))

    def store(self, file: IO[bytes]) -> Deferred[None]:
        return deferToThread(file.close)


STORAGES = dict.fromkeys(("", "file"), f"{__name__}.{FileFeedStorage.__name__}")
"""What the add-on puts into FEED_STORAGES."""
SCRAPYS_FILES = "scrapy.extensions.feedexport.FileFeedStorage"


class ForPeople(feedexport.ItemFilter):
    """Of a feed that names no classes: everything but the rows we write about ourselves."""

    def accepts(self, item: Any) -> bool:
        return not isinstance(item, (FailureItem, StatsItem))


def completed(feed: dict[str, Any]) -> dict[str, Any]:
    """A feed that says which items it takes, and whose rows can be flushed."""
    if not (feed.get("item_classes") or feed.get("item_filter")):
        feed = {**feed, "item_filter": ForPeople}
    return feed if is_tested() else with_own_gzip(feed)


class FlushingFeedExporter(parts.FeedExporter):
    """Among the `EXTENSIONS`, in the place of Scrapy's."""

    def __init__(self, crawler: Crawler) -> None:
        self._own_items: Counter[str] = Counter()
        self._files = FeedFiles()
        super().__init__(crawler)
        for options in self.feeds.values():
            options[FILES] = self._files
        name_worker(crawler.settings)
        config = Config.from_settings(crawler.settings)
        self._rotate_bytes = config.feed_rotate_mb * 1024 * 1024
        self._rotate_s = config.feed_rotate_minutes * 60
        _check_storages(crawler)
        if crawler.spider is not None:  # in `scrapy shell` there is none yet
            self._check_names(crawler.spider)

    def _check_names(self, spider: Spider) -> None:
        """Refuse a URI with unknown names now: when the spider opens, Scrapy would only log it."""
        try:
            self.check_names(spider)
        except ValueError as error:
            raise ConfigError(
                f"{error}. Use %(crawl)s, %(worker)s, %(batch_id)d, %(time)s or an attribute of "
                "the spider."
            ) from error

    def item_scraped(self, item: Any, spider: Spider, response: Response | None = None) -> None:
        if type(item) not in COLUMNS:
            self._count(type(item).__name__)
        self._files.response = response
        super().item_scraped(item, spider)
        self._files.response = None

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
        self.press_out()
        self._files.save()

    def is_full(self, file: Any, uri_template: str) -> bool:
        is_full = isinstance(file, RowFile) and file.is_full(self._rotate_bytes, self._rotate_s)
        return is_full and bool(BATCH_ID.search(uri_template))

    def is_taken(self, storage: Any, uri_template: str) -> bool:
        # A file of an earlier run may end in half a row: adding to it would spoil a whole one.
        is_numbered = bool(BATCH_ID.search(uri_template))
        return is_numbered and isinstance(storage, FileFeedStorage) and storage.would_add


def _check_storages(crawler: Crawler) -> None:
    """Scrapy's own files are not synced: what is settled by their rows could be lost."""
    storages = crawler.settings.getwithbase("FEED_STORAGES")
    for scheme in STORAGES:
        if storages.get(scheme) == SCRAPYS_FILES:
            raise ConfigError(
                f"FEED_STORAGES[{scheme!r}] is {SCRAPYS_FILES}, whose rows are not synced to disk "
                f"before their page counts as done: set {STORAGES[scheme]}, as the add-on "
                "crawlproj.addon.Addon does"
            )
