"""What the site spider switches off is off for itself only, and only if nobody wants it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.settings import Settings
from scrapy.utils.conf import build_component_list

from crawlproj import spider as engine
from crawlproj.items import PageItem
from spiders.site import SiteSpider

DEPTH = "scrapy.spidermiddlewares.depth.DepthMiddleware"
OFFSITE = "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware"
OWN = "crawlproj.fetch.content.ContentMiddleware"


class WithRequests(SiteSpider):
    name = "requests"

    def parse(self, response: Response) -> Iterator[Any]:
        yield Request(response.urljoin("/more"))


class WithItems(SiteSpider):
    name = "items"

    def page(self, response: Response, page: PageItem) -> Iterator[Any]:
        yield {"url": page.url}


def enabled(spider: type[engine.SiteSpider], name: str, **project: object) -> list[str]:
    settings = Settings(project)
    spider.update_settings(settings)
    return build_component_list(settings.get_component_priority_dict_with_base(name))


@pytest.mark.parametrize("spider", [SiteSpider, engine.SiteSpider, WithItems])
def test_a_site_spider_has_no_middleware_for_requests_that_it_never_yields(
    spider: type[engine.SiteSpider],
) -> None:
    assert enabled(spider, "SPIDER_MIDDLEWARES") == [
        "scrapy.spidermiddlewares.httperror.HttpErrorMiddleware"
    ]
    assert OFFSITE not in enabled(spider, "DOWNLOADER_MIDDLEWARES")


def test_a_spider_derived_from_it_that_may_yield_requests_has_them_all() -> None:
    assert DEPTH in enabled(WithRequests, "SPIDER_MIDDLEWARES")
    assert OFFSITE in enabled(WithRequests, "DOWNLOADER_MIDDLEWARES")


def test_what_a_project_asks_for_is_kept() -> None:
    wanted = {DEPTH: 900, OWN: 10}
    found = enabled(SiteSpider, "SPIDER_MIDDLEWARES", SPIDER_MIDDLEWARES=wanted)
    assert DEPTH in found
    assert OWN in found
