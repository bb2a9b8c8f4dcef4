"""Has whatever a worker downloads archived: pages, redirects, errors, robots.txt files, and answers
that were of no use to the crawl.

By Scrapy's signals around its downloader, so that what comes from a cache is not archived again.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from scrapy import Request, signals

from crawlproj.fetch.wire import Wire
from crawlproj.frontier.meta_keys import KEEP_WIRE, WIRE
from crawlproj.output.archive.files import ArchiveFiles
from crawlproj.output.archive.records import Capture

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

STATS = {
    "archive/exchanges": "exchanges",
    "archive/revisits": "revisits",
    "archive/spared_bytes": "spared_bytes",
    "archive/file_bytes": "file_bytes",
}
"""Names of Scrapy's stats -> what ArchiveFiles calls it."""


class ArchiveRecorder:
    """From a crawler's downloads to its files."""

    def __init__(self, crawler: Crawler, files: ArchiveFiles) -> None:
        self._crawler = crawler
        self._files = files
        self._has_warned = False
        crawler.signals.connect(self._begin, signals.request_reached_downloader)
        crawler.signals.connect(self._check, signals.response_downloaded)
        crawler.signals.connect(self._end, signals.request_left_downloader)

    @property
    def is_behind(self) -> bool:
        """Whether so much waits for the disk that no more should come."""
        return self._files.is_behind

    def save(self) -> None:
        """Have on disk what has been downloaded, or raise OSError; in a thread."""
        self._files.save()

    def close(self) -> None:
        """Nothing more is downloaded."""
        self._files.close()
        stats = self._crawler.stats
        assert stats is not None
        for name, attribute in STATS.items():
            stats.set_value(name, getattr(self._files, attribute))

    def _begin(self, request: Request) -> None:
        request.meta[KEEP_WIRE] = True

    def _check(self, request: Request) -> None:
        is_ours = not request.url.startswith(("http:", "https:")) or WIRE in request.meta
        if not is_ours and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%s is not archived, like all that comes by a download handler that does not keep "
                "pages as they came",
                request.url,
            )

    def _end(self, request: Request) -> None:
        meta = request.meta
        meta.pop(KEEP_WIRE, None)
        wire: Wire | None = meta.pop(WIRE, None)
        if wire is None:
            return
        # The address at the other end of the connection is the proxy's.
        address = "" if meta.get("proxy") else wire.address
        self._files.add(
            Capture(
                url=request.url,
                at_s=int(time.time() - meta.get("download_latency", 0.0)),
                request=wire.request,
                head=wire.head,
                body=wire.body,
                address=address,
                protocol=wire.protocol,
                truncated=wire.truncated,
            )
        )
