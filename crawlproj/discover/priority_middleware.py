"""Keeps the counts of pages by host that priorities are made of, as far as this worker knows them.

The frontier counts the pages of each host for all workers and tells with each lease how many there
are; links that are found on the page are ranked by that (ranking.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import NotConfigured

from crawlproj.running import is_in_use, running_crawl

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response


class PriorityMiddleware:
    """Tells the discovery of links how many pages a host has had."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not is_in_use(crawler.settings):
            raise NotConfigured("without crawlproj's scheduler nobody ranks links")
        return cls(crawler)

    def process_response(self, request: Request, response: Response) -> Response:
        crawl = running_crawl(self._crawler)
        if crawl is not None and (attempt := crawl.tracking.of(request)):
            crawl.discovery.count_page(attempt.lease.host, attempt.lease.host_pages + 1)
        return response
