"""What the site spider is given where there is no frontier: when one of Scrapy's own commands looks
at a page (`scrapy parse --spider site URL`), its links are Requests, as every spider's are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scrapy import Request

from crawlproj.config import Config
from crawlproj.urls import Url, UrlError, normalise, param_pattern


class Detached:
    """Stands in for a running crawl and those parts of it of which a spider makes use."""

    worker_name = ""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.tracking = self.discovery = self
        self._drop = param_pattern(config.drop_params)
        self._found: dict[str, Request] = {}

    def of(self, request: Request | None) -> None:
        """What is held of the frontier: nothing."""

    def normal(self, url: str, base: Url | None = None, encoding: str = "utf-8") -> Url:
        """A URL in the one form that it would have in a crawl; raises UrlError."""
        return normalise(url, base, encoding=encoding, drop=self._drop)

    def seed_priority(self, url: Url) -> int:
        """Nothing is ranked."""
        return 0

    def read(
        self,
        page: Url,
        body: bytes,
        hrefs: Sequence[str],
        base: Url,
        depth: int,
        *,
        encoding: str = "utf-8",
    ) -> int:
        """Note a page's links; returns how many could be used."""
        usable = 0
        for href in hrefs:
            try:
                self._note(self.normal(href, base, encoding), depth + 1, str(page))
                usable += 1
            except UrlError:
                continue
        return usable

    def redirect(self, url: Url, depth: int, referer: str, passed: list[str]) -> str:
        """Note where a redirect leads; returns that."""
        self._note(url, depth, referer, redirects=list(passed))
        return str(url)

    def take(self) -> list[Request]:
        """What was noted since."""
        found, self._found = self._found, {}
        return list(found.values())

    def _note(self, url: Url, depth: int, referer: str, **meta: Any) -> None:
        meta |= {"depth": depth, "referer": referer}
        self._found.setdefault(str(url), Request(str(url), meta=meta))
