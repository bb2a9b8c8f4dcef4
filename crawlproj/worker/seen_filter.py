"""Scrapy's dupefilter → the seen filter.

The Bloom filter itself is asked where URLs are pushed, in one script with their queueing. What
stands here is scrapy-redis's class and interface over this worker's copy of it: it answers for
what is known to be seen, without a round trip, and leaves the rest to the push.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.request import RequestFingerprinter
from scrapy_redis.dupefilter import RFPDupeFilter

from crawlproj.frontier import seen_keys
from crawlproj.frontier.records import RequestKey, key_of_url
from crawlproj.urls import DROPPED_PARAMS

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.settings import Settings

    from crawlproj.worker.exchange import Worker
    from crawlproj.worker.join import Identity


class SeenFilter(RFPDupeFilter):  # type: ignore[misc]
    """`DUPEFILTER_CLASS` of a project that uses our scheduler."""

    def __init__(self, server: Any, key: str, debug: bool = False) -> None:
        super().__init__(server, key, debug)
        self._worker: Worker | None = None
        self._fingerprinter: Any = None
        self._drop = DROPPED_PARAMS
        self._by_url = True

    @classmethod
    def from_spider(cls, spider: Spider) -> SeenFilter:
        self: SeenFilter = super().from_spider(spider)
        self._fingerprinter = spider.crawler.request_fingerprinter
        self._by_url = False
        return self

    @classmethod
    def of_project(cls, settings: Settings, identity: Identity) -> SeenFilter:
        """For a look from outside: it knows what requests are the same, and none that was seen."""
        self = cls(None, "")
        crawler = Crawler(Spider, settings)
        fingerprinter = load_object(settings["REQUEST_FINGERPRINTER_CLASS"])
        self._fingerprinter = build_from_crawler(fingerprinter, crawler)
        self.use_identity(identity)
        return self

    def attach(self, worker: Worker, identity: Identity) -> None:
        """Answer from this worker's copy from now on."""
        self._worker = worker
        self.use_identity(identity)

    def use_identity(self, identity: Identity) -> None:
        """Judge by the crawl's identity of requests. A fingerprinter of the project's own has the
        last word."""
        self._drop = identity.drop
        self._by_url = identity.by_url and type(self._fingerprinter) is RequestFingerprinter

    def key_of(self, request: Request) -> RequestKey:
        """The request's queue and its key: what the project's fingerprinter says; where links are
        ours the URL of a plain GET, else a fingerprint that counts method and body too."""
        found = key_of_url(request.url, self._drop)
        if not self._by_url:
            digest = self._fingerprinter.fingerprint(request)
            return RequestKey(found.host, seen_keys.fingerprint(digest))
        if request.method == "GET" and not request.body:
            return found
        return RequestKey(found.host, self.request_fingerprint(request))

    def request_seen(self, request: Request) -> bool:
        """True if the request is known to have been taken in, which counts it as a duplicate."""
        found = self.key_of(request)
        return self._worker is not None and self._worker.count_if_seen(found.host, found.key)

    def clear(self) -> None:
        """What has been seen belongs to the crawl, not to a worker: only purging forgets it."""
