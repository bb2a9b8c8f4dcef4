"""A log that people can read: what a worker does, not what it does to each page.

Every page has a row in the feeds; a line in the log besides costs more than fetching it did.
At DEBUG they are all there, as in Scrapy.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy.logformatter import LogFormatter, LogFormatterResult

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure


class QuietLogFormatter(LogFormatter):
    """Scrapy's messages, without those about single pages unless they would be shown."""

    def __init__(self, verbose: bool) -> None:
        self._verbose = verbose

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler.settings.get("LOG_LEVEL") == "DEBUG")

    def crawled(  # type: ignore[override]  # Scrapy takes None, and says so in its documentation
        self, request: Request, response: Response, spider: Spider
    ) -> LogFormatterResult | None:
        return super().crawled(request, response, spider) if self._verbose else None

    def scraped(  # type: ignore[override]
        self, item: Any, response: Any, spider: Spider
    ) -> LogFormatterResult | None:
        return super().scraped(item, response, spider) if self._verbose else None

    def download_error(
        self, failure: Failure, request: Request, spider: Spider, errmsg: str | None = None
    ) -> LogFormatterResult:
        level = logging.ERROR if self._verbose else logging.DEBUG
        return {**super().download_error(failure, request, spider, errmsg), "level": level}
