"""The engine of `scrapy crawl site`: follows the links of its seeds, and reports each page.

What a user edits is spiders/site.py, a class derived from this one. A project without that file has
the spider by `SPIDER_MODULES = ["crawlproj.spider"]`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Self

import scrapy
from scrapy import Request
from scrapy.http import Response, TextResponse
from w3lib.encoding import http_content_type_encoding

from crawlproj.config import BY_URL, Config, take_arguments, user_agent_of
from crawlproj.discover import declared, links, redirects
from crawlproj.discover.conditional import GONE, NOT_MODIFIED
from crawlproj.discover.seeds import read_seeds, seed_fields
from crawlproj.fetch.content import body_size, media_type
from crawlproj.frontier.meta_keys import REFERER, STATUSES, VISIT
from crawlproj.frontier.outcomes import Failed, Filtered
from crawlproj.items import PageItem, utc_timestamp
from crawlproj.politeness.robots import directives
from crawlproj.running import Links, PageContext, PageToRead, ReadPage, running_crawl
from crawlproj.urls import Url, UrlError
from crawlproj.worker.detached import Detached
from crawlproj.worker.identity import name_worker

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from crawlproj.frontier.outcomes import Attempt

REVISITED = (NOT_MODIFIED, *GONE)
"""What a page that was fetched before says if there is nothing new of it to read."""

UNUSED = {
    # Scope is judged where links are found; no user name is asked for.
    "DOWNLOADER_MIDDLEWARES": ("offsite.OffsiteMiddleware", "httpauth.HttpAuthMiddleware"),
    # They look at the requests that a callback yields, and ours yields none.
    "SPIDER_MIDDLEWARES": (
        "start.StartSpiderMiddleware",
        "referer.RefererMiddleware",
        "urllength.UrlLengthMiddleware",
        "depth.DepthMiddleware",
        "metacopy.MetaCopyDetectionMiddleware",
    ),
}
"""Scrapy's middlewares that this spider has no use for, as long as it yields no Requests."""

YIELD_REQUESTS = ("parse", "start", "start_requests", "make_request_from_data")
"""What a class derived from this one may override to yield Requests of its own, or with callbacks
of its own: it then has those middlewares."""


class SiteSpider(scrapy.Spider):
    """Every argument has a setting of the same meaning; see crawlproj/config/options.py."""

    name = "site"
    starts_with_seeds = True
    handle_httpstatus_list: Iterable[int]
    reads_pages = True
    """Its default callback wants what links can be in, and of anything else the headers alone."""
    stores_pages = True
    """Its pages can be kept by URL (CRAWL_STORE), and revisited (CRAWL_REFRESH)."""
    custom_settings = {
        # A redirect is a page with one link: it goes through the frontier like any other.
        "REDIRECT_ENABLED": False,
        "HTTPERROR_ALLOWED_CODES": [*redirects.STATUSES],
        # It would parse every page once more.
        "METAREFRESH_ENABLED": False,
    }

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        # Its links are no Requests: both are known by their URL.
        settings.set("CRAWL_IDENTITY", BY_URL, priority="spider")
        super().update_settings(settings)
        if not cls._may_yield_requests():
            # Its callbacks are known: they need not be looked at with every page.
            settings.set("WARN_ON_GENERATOR_RETURN_VALUE", False, priority="spider")
            for name, unused in UNUSED.items():
                package = f"scrapy.{name.replace('_', '').lower()}"
                off = {f"{package}.{middleware}": None for middleware in unused}
                settings.set(name, {**off, **settings.getdict(name)}, priority="spider")

    @classmethod
    def _may_yield_requests(cls) -> bool:
        return any(
            getattr(cls, name, None) is not getattr(SiteSpider, name, None)
            for name in YIELD_REQUESTS
        )

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        take_arguments(crawler.settings, kwargs)
        name_worker(crawler.settings)
        spider = super().from_crawler(crawler, *args)
        if wanted := getattr(spider, STATUSES, None):
            # Scrapy goes by it instead of the setting: redirects are to come here all the same.
            spider.handle_httpstatus_list = [*wanted, *redirects.STATUSES]
        return spider

    async def start(self) -> AsyncIterator[Request]:
        for seed in read_seeds(Config.from_settings(self.settings).seeds):
            url, meta = self._normal(seed), {"is_start_request": True}
            priority = self._discovery().seed_priority(url)
            yield Request(str(url), dont_filter=True, meta=meta, priority=priority)

    def make_request_from_data(self, data: bytes) -> Request:
        """A seed from `site:start_urls`."""
        fields = seed_fields(data)
        url = self._normal(fields["url"])
        ranked = {"priority": self._discovery().seed_priority(url), **fields}
        return Request(**{**ranked, "url": str(url)})

    def page(self, response: Response, page: PageItem) -> Iterable[Any] | None:
        """A page has been fetched and its links are taken care of: yield items of your own from
        it, of any kind that Scrapy knows. `page` is its row: url, title, depth, content_type, …
        Redirects, failures and pages that are left out (`noindex`) do not come here. The links are
        found without Requests, and stay so; for Requests of your own, override `parse`."""

    def parse(self, response: Response) -> Iterator[Any]:
        crawl, is_redirect = self._crawl(), redirects.is_one(response)
        if is_redirect:
            page = self._redirect(response)
        elif (
            response.status == NOT_MODIFIED and crawl.earlier is not None and crawl.refresh is None
        ):
            page = self._page(response)
            crawl.earlier.carry(page)
        elif response.status in REVISITED and VISIT in response.meta:
            yield self._revisited(response)
            return
        elif isinstance(response, TextResponse) and _is_html(response):
            page = self._read(response)
        else:
            page = self._page(response)
        if page is not None:
            if crawl.earlier is not None:
                crawl.earlier.compare(page)
            if self._has_store:
                self._store(response, page)
            yield page
            if self._has_own_items and not is_redirect:
                yield from self._own_items(response, page)
        if isinstance(crawl, Detached):
            yield from crawl.take()

    def _revisited(self, response: Response) -> PageItem:
        """The row of a page that has not changed, or is gone."""
        if response.status in GONE and (attempt := self._crawl().tracking.of(response.request)):
            attempt.decide(Failed(f"http_{response.status}"))
        return self._page(response)

    @property
    def knows_unchanged(self) -> bool:
        """Whether all that is made of a page is known if it has not changed (CRAWL_AGAINST)."""
        return not (self._has_own_items or self._may_yield_requests())

    @cached_property
    def _has_store(self) -> bool:
        return bool(self._crawl().config.store)

    def _store(self, response: Response, page: PageItem) -> None:
        """Have a page kept by its URL, if it ends well."""
        if attempt := self._crawl().tracking.of(response.request):
            attempt.stored = page, response.body

    @cached_property
    def _has_own_items(self) -> bool:
        return type(self).page is not SiteSpider.page

    def _own_items(self, response: Response, page: PageItem) -> Iterator[Any]:
        for item in self.page(response, page) or ():
            if isinstance(item, Request):
                raise TypeError("page() yields items; override parse() to yield Requests")
            yield item

    def _read(self, response: TextResponse) -> PageItem | None:
        crawl = self._crawl()
        config, closer = crawl.config, crawl.closer_reading
        if closer is None:
            page = links.extract(
                response.body,
                _charset(response),
                images=crawl.discovery.wants_media,
                skip_nofollow=config.nofollow,
            )
        else:
            read = closer.read(response.body, _charset(response))
            page = read.page
        said = directives(response.headers.getlist("X-Robots-Tag"), self._robots_name)
        is_nofollow = config.nofollow and (page.nofollow or "nofollow" in said)
        found = 0 if is_nofollow else self._follow(response, page)
        if closer is not None:
            url, depth = self._normal(response.url), response.meta.get("depth", 0)
            lease = attempt.lease.token if (attempt := crawl.tracking.of(response.request)) else 0
            priority = _priority(response)
            closer.note(url, read, depth, lease, priority=priority, is_nofollow=is_nofollow)
        if config.noindex and (page.noindex or "noindex" in said):
            self._leave_out(response)
            return None
        row = self._page(
            response,
            title=page.title,
            links=found,
            canonical=self._canonical(response, page),
            language=declared.language(response.body, response.headers),
        )
        if crawl.attributes is not None:
            crawl.attributes.add(_to_read(response, row))
        if crawl.extraction is not None:
            crawl.extraction.add(response, row)
        if crawl.near is not None:
            crawl.near.ask(self._normal(response.url), row, response, page.encoding)
        return row

    def _canonical(self, response: Response, page: links.Page) -> str:
        """The URL by which a page wants to be known, in the form of all others."""
        href = declared.canonical(response.body)
        if not href or href == response.url:
            return href
        try:
            return str(self._normal(href, links.base_of(page, self._normal(response.url))))
        except UrlError:
            return ""

    def _leave_out(self, response: Response) -> None:
        """No row for a page that does not want to be indexed; the ledger says why."""
        if attempt := self._crawl().tracking.of(response.request):
            attempt.decide(Filtered("noindex"))

    @cached_property
    def _robots_name(self) -> str:
        return user_agent_of(self.settings)

    def _normal(self, url: str, base: Url | None = None) -> Url:
        return self._discovery().normal(url, base)

    def _discovery(self) -> Links:
        return self._crawl().discovery

    def _crawl(self) -> PageContext:
        """The crawl that this worker is at; a stand-in where a command of Scrapy's looks at a page
        without one."""
        return running_crawl(self.crawler) or self._detached

    @cached_property
    def _detached(self) -> Detached:
        return Detached(Config.from_settings(self.settings))

    def _follow(self, response: Response, page: links.Page) -> int:
        url = self._normal(response.url)
        if page.overflow:
            self._count_left_out(response.url, page.overflow)
        read = ReadPage(
            url,
            response.body,
            hrefs=page.links,
            base=links.base_of(page, url),
            depth=response.meta.get("depth", 0),
            encoding=links.query_encoding(page.encoding),
            is_revisit=VISIT in response.meta,
            priority=_priority(response),
        )
        return self._discovery().read(read)

    def _count_left_out(self, url: str, count: int) -> None:
        assert self.crawler.stats is not None
        self.crawler.stats.inc_value("crawl/links_left_out", count)
        said = "%s has %s links more than the %s that are kept"
        self.logger.warning(said, url, f"{count:,}", f"{links.MAX_LINKS:,}")

    def _redirect(self, response: Response) -> PageItem | None:
        """The row of a redirect that is followed; one that leads nowhere ends as a failure."""
        passed = redirects.passed_by(response)
        try:
            to = redirects.target(response.headers.get("Location"), passed, self._normal)
        except redirects.BAD as error:
            self._fail(response, error)
            return None
        depth, priority = response.meta.get("depth", 0), _priority(response)
        url = self._discovery().redirect(to, depth, response.url, passed, priority)
        page = self._page(response, redirect_to=url)
        if closer := self._crawl().closer_reading:
            closer.note_redirect(page.url, url, page.lease)
        return page

    def checked(self, response: Response) -> None:
        """The answer to a link that is only asked whether it is there (CRAWL_CHECK)."""
        crawl = self._crawl()
        attempt, closer = crawl.tracking.of(response.request), crawl.closer_reading
        if attempt is None or closer is None:
            return
        passed = redirects.passed_by(response)
        if not redirects.is_one(response):
            attempt.decide(closer.outcome_of_check(response, attempt, passed[:-1]))
            return
        try:
            to = redirects.target(response.headers.get("Location"), passed, self._normal)
        except redirects.BAD as error:
            self._fail(response, error)
            return
        closer.check_redirect(attempt, to, passed)

    def _fail(self, response: Response, error: Exception) -> None:
        """Let the page end dead, for this error."""
        if attempt := self._crawl().tracking.of(response.request):
            attempt.error = error
        self.logger.warning("%s redirects %s", response.url, error)

    def _page(self, response: Response, **columns: Any) -> PageItem:
        request = response.request
        assert request is not None
        attempt = self._crawl().tracking.of(request)
        fetched_at, elapsed_ms = _timing(response, attempt)
        versions = declared.versions(response.headers)
        digest = hashlib.sha256(response.body) if response.body else None
        return PageItem(
            url=response.url,
            status=response.status,
            depth=response.meta.get("depth", 0),
            priority=request.priority,
            content_type=media_type(response.headers.get("Content-Type") or b""),
            size=body_size(response),
            content_hash=digest.hexdigest() if digest else "",
            fetched_at=fetched_at,
            elapsed_ms=elapsed_ms,
            referer=response.meta.get(REFERER, ""),
            worker=self._crawl().worker_name,
            lease=attempt.lease.token if attempt else 0,
            etag=versions.etag,
            last_modified=versions.last_modified,
            change=self._change(response, attempt, columns.get("redirect_to"), digest),
            **columns,
        )

    def _change(
        self, response: Response, attempt: Attempt | None, target: str | None, digest: Any
    ) -> str:
        """What a visit has found, where pages are revisited: a redirect is what it leads to."""
        refresh = self._crawl().refresh
        if refresh is None or attempt is None:
            return ""
        content = hashlib.sha256(target.encode()) if target else digest
        return refresh.note(attempt, response, content.digest() if content else b"")


def _to_read(response: Response, row: PageItem) -> PageToRead:
    return PageToRead(
        row.url,
        response.body,
        charset=_charset(response),
        language=row.language,
        canonical=row.canonical,
        fetched_at=row.fetched_at,
        lease=row.lease,
    )


def _priority(response: Response) -> int:
    """By which a response was asked for."""
    return response.request.priority if response.request else 0


def _timing(response: Response, attempt: Attempt | None) -> tuple[str, int]:
    """When the response had come, however long it waited to be read, and what it took from the
    beginning of its request: what `scrapy audit` judges by."""
    if attempt is None:
        return utc_timestamp(), round(response.meta.get("download_latency", 0) * 1000)
    return utc_timestamp(time.time() - attempt.ended_ago_s), round(attempt.took_s * 1000)


def _charset(response: Response) -> str | None:
    """What the header says: the page itself is asked only where that says nothing."""
    return _charset_in(response.headers.get("Content-Type") or b"")


@lru_cache
def _charset_in(content_type: bytes) -> str | None:
    return http_content_type_encoding(content_type.decode("latin-1"))


def _is_html(response: Response) -> bool:
    content_type = (response.headers.get("Content-Type") or b"").lower()
    return not content_type or b"html" in content_type
