"""Scrapy's count of requests and responses, without writing each request out to measure it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares import stats

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Headers, Response

_COLON_AND_LINE_END = 4
_status_bytes = lru_cache(stats.get_status_size)


class DownloaderStats(stats.DownloaderStats):
    """In the place of Scrapy's among the DOWNLOADER_MIDDLEWARES; the same stats."""

    def process_request(self, request: Request) -> None:  # type: ignore[override]
        count = self.stats.inc_value
        count("downloader/request_count")
        count(f"downloader/request_method_count/{request.method}")
        count("downloader/request_bytes", _request_bytes(request))

    def process_response(self, request: Request, response: Response) -> Response:  # type: ignore[override]
        count, status = self.stats.inc_value, response.status
        count("downloader/response_count")
        count(f"downloader/response_status_count/{status}")
        size = len(response.body) + _header_bytes(response.headers)
        count("downloader/response_bytes", size + _status_bytes(status) + 2)
        return response


def _request_bytes(request: Request) -> int:
    """Request line, host, headers and body, as they are about to be sent."""
    authority, _, path = request.url.partition("://")[2].partition("/")
    line = len(request.method) + len(" / HTTP/1.1\r\n") + len(path)
    host = len("Host: \r\n") + len(authority)
    return line + host + _header_bytes(request.headers) + 2 + len(request.body)


def _header_bytes(headers: Headers) -> int:
    size = 0
    for name, values in dict.items(headers):
        for value in values:
            size += len(name) + len(value) + _COLON_AND_LINE_END
    return size
