"""Scrapy's dupefilter → the seen filter.

The Bloom filter itself is asked where URLs are pushed, in one script with their queueing. What
stands here is scrapy-redis's class and interface over this worker's copy of it: it answers for
what is known to be seen, without a round trip, and leaves the rest to the push.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.utils.request import RequestFingerprinter
from scrapy_redis.dupefilter import RFPDupeFilter

from crawlproj.frontier.records import Address, address
from crawlproj.urls import DROPPED_PARAMS

if TYPE_CHECKING:
    import re

    from scrapy import Request, Spider

    from crawlproj.worker.exchange import Worker


class SeenFilter(RFPDupeFilter):  # type: ignore[misc]
    """`DUPEFILTER_CLASS` of a project that uses our scheduler."""

    def __init__(self, server: Any, key: str, debug: bool = False) -> None:
        super().__init__(server, key, debug)
        self._worker: Worker | None = None
        self._fingerprinter: Any = None
        self._drop = DROPPED_PARAMS

    @classmethod
    def from_spider(cls, spider: Spider) -> SeenFilter:
        self: SeenFilter = super().from_spider(spider)
        fingerprinter = spider.crawler.request_fingerprinter
        self._fingerprinter = None if type(fingerprinter) is RequestFingerprinter else fingerprinter
        return self

    def attach(self, worker: Worker | None, drop: re.Pattern[str]) -> None:
        """Answer from this worker's copy from now on, if there is one; `drop` are the parameters
        that make no difference."""
        self._worker = worker
        self._drop = drop

    def address(self, request: Request) -> Address:
        """The request's queue and its key: the URL of a plain GET, else a fingerprint that
        counts method and body too, or what the project's own fingerprinter says."""
        found = address(request.url, self._drop)
        if self._fingerprinter is not None:
            return Address(found.host, self._fingerprinter.fingerprint(request).hex())
        if request.method == "GET" and not request.body:
            return found
        return Address(found.host, self.request_fingerprint(request))

    def request_seen(self, request: Request) -> bool:
        """True if the request is known to have been taken in."""
        found = self.address(request)
        return self._worker is not None and self._worker.seen(found.host, found.key)

    def clear(self) -> None:
        """What has been seen belongs to the crawl, not to a worker: only purging forgets it."""
