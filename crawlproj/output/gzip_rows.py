"""Rows by gzip that can be had on disk while more are to come, where Scrapy's plugin has no flush.

In the place of Scrapy's GzipPlugin among a feed's `postprocessing`, with a Scrapy whose inner parts
are not relied on.
"""

from __future__ import annotations

import threading
from gzip import GzipFile
from typing import Any, BinaryIO, cast

from crawlproj.output.row_file import RowFile

SCRAPYS = "scrapy.extensions.postprocessing.GzipPlugin"


class GzipRows:
    """Takes the options of Scrapy's."""

    def __init__(self, file: BinaryIO, feed_options: dict[str, Any]) -> None:
        self._gzip = GzipFile(
            fileobj=file,
            mode="wb",
            compresslevel=feed_options.get("gzip_compresslevel", 9),
            mtime=feed_options.get("gzip_mtime"),
            filename=cast("str", feed_options.get("gzip_filename")),
        )
        self._lock = threading.Lock()
        if isinstance(file, RowFile):
            file.flush_encoder = self._flush

    def write(self, data: bytes) -> int:
        with self._lock:
            return self._gzip.write(data)

    def close(self) -> None:
        with self._lock:
            self._gzip.close()

    def _flush(self) -> None:
        with self._lock:
            if not self._gzip.closed:
                self._gzip.flush()


def with_own_gzip(feed: dict[str, Any]) -> dict[str, Any]:
    """A feed whose rows by gzip can be flushed."""
    plugins = feed.get("postprocessing")
    if not plugins or all(_path(plugin) != SCRAPYS for plugin in plugins):
        return feed
    ours = [GzipRows if _path(plugin) == SCRAPYS else plugin for plugin in plugins]
    return {**feed, "postprocessing": ours}


def _path(plugin: Any) -> str:
    return plugin if isinstance(plugin, str) else f"{plugin.__module__}.{plugin.__qualname__}"
