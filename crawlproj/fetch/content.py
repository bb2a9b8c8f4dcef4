"""Only what is wanted is downloaded: of anything else the headers are enough.

Servers are told which content types are wanted. A response of another type is recognised by its
headers and its body is not read; it goes on like any response, empty, and gets its row. What a
component fetches for itself, such as robots.txt, a sitemap or media that were asked for, is read
whole.

Unless a user has chosen the types, they are those in which links can be: good for the pages that
`site` reads, and not for what other spiders, or callbacks of one's own, may want to read.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING

from scrapy import Request, signals
from scrapy.exceptions import NotConfigured, StopDownload
from scrapy.http.request import NO_CALLBACK

from crawlproj.config import Config, names_content_types
from crawlproj.engine.responses import STOPPED
from crawlproj.frontier.meta_keys import CHECK, ROBOTS_TXT, SITEMAP

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler
    from scrapy.http import Headers, Response

EXEMPT = frozenset({ROBOTS_TXT, SITEMAP})
"""Keys of `request.meta` that mark what is read whatever its type."""


class ContentMiddleware:
    """Asks for the wanted content types and stops the download of others."""

    def __init__(self, wanted: Collection[str], *, is_chosen: bool = True) -> None:
        self._is_chosen = is_chosen
        self._wanted = frozenset(wanted)
        self._accept = ", ".join([*wanted, "*/*;q=0.1"]).encode()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        is_chosen = names_content_types(crawler.settings)
        if not is_chosen and not getattr(crawler.spidercls, "reads_pages", False):
            raise NotConfigured
        wanted = Config.from_settings(crawler.settings).content_types
        self = cls(wanted, is_chosen=is_chosen)
        crawler.signals.connect(self._headers_received, signals.headers_received)
        return self

    def process_request(self, request: Request) -> None:
        if not self._is_exempt(request):
            dict.setdefault(request.headers, b"Accept", [self._accept])

    def _headers_received(self, headers: Headers, request: Request) -> None:
        if not self._is_exempt(request) and not self.is_wanted(content_type(headers)):
            raise StopDownload(fail=False)

    def is_wanted(self, kind: str) -> bool:
        """True for a wanted type, and for none: it may be anything."""
        family = kind.partition("/")[0]
        return not kind or not self._wanted.isdisjoint((kind, f"{family}/*", "*/*"))

    def _is_exempt(self, request: Request) -> bool:
        # Scrapy's mark on requests that are not a spider's.
        if request.callback is NO_CALLBACK or not EXEMPT.isdisjoint(request.meta):
            return True
        is_page = request.callback is None or CHECK in request.meta
        return not (is_page or self._is_chosen)


def content_type(headers: Headers) -> str:
    """`text/html`, without parameters; '' if there is none that could be one."""
    kind = media_type(headers.get("Content-Type") or b"")
    return kind if "/" in kind else ""


@lru_cache
def media_type(value: bytes) -> str:
    """A header `Content-Type` in lower case, without parameters, whatever it says."""
    return value.decode("latin-1").partition(";")[0].strip().lower()


def body_size(response: Response) -> int:
    """The size of a body: as the server has announced it, where it was not read."""
    if STOPPED not in response.flags:
        return len(response.body)
    announced = (response.headers.get("Content-Length") or b"").strip()
    return int(announced) if announced.isdigit() else 0
