"""Stands in for a crawl where there is no frontier: when one of Scrapy's own commands looks at a
page (`scrapy parse --spider site URL`), the links of the site spider are Requests, as every
spider's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from scrapy import Request

from crawlproj.config import Config
from crawlproj.frontier.meta_keys import PASSED, REFERER
from crawlproj.running import ReadPage
from crawlproj.urls import Url, UrlError, normalise, param_pattern


class Detached:
    """Stands in for a running crawl and those parts of it of which a spider makes use."""

    worker_name = ""
    closer_reading = None
    attributes = None
    extraction = None
    refresh = None
    near = None
    earlier = None

    def __init__(self, config: Config) -> None:
        self.config = config
        self.wants_media = config.media
        self.tracking = self.discovery = self
        self.normal = partial(normalise, drop=param_pattern(config.drop_params))
        """A URL in the one form that it would have in a crawl; raises UrlError."""
        self._found: dict[str, Request] = {}

    def of(self, request: Request | None) -> None:
        """What is held of the frontier: nothing."""

    def seed_priority(self, url: Url) -> int:
        """Nothing is ranked."""
        return 0

    def read(self, page: ReadPage) -> int:
        """Note a page's links; returns how many could be used."""
        usable = 0
        for href in page.hrefs:
            try:
                url = self.normal(href, page.base, encoding=page.encoding)
            except UrlError:
                continue
            self._note(url, page.depth + 1, str(page.url))
            usable += 1
        return usable

    def redirect(
        self, url: Url, depth: int, referer: str, passed: list[str], priority: float = 0
    ) -> str:
        """Note where a redirect leads; returns that."""
        self._note(url, depth, referer, passed)
        return str(url)

    def take(self) -> list[Request]:
        """What was noted since."""
        found, self._found = self._found, {}
        return list(found.values())

    def _note(self, url: Url, depth: int, referer: str, passed: Sequence[str] = ()) -> None:
        meta: dict[str, Any] = {"depth": depth, REFERER: referer}
        if passed:
            meta[PASSED] = list(passed)
        self._found.setdefault(str(url), Request(str(url), meta=meta))
