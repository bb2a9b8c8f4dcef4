"""What the site spider switches off is off for itself only, and only if nobody wants it."""

from __future__ import annotations

from scrapy.settings import Settings
from scrapy.utils.conf import build_component_list

from spiders.site import SiteSpider

DEPTH = "scrapy.spidermiddlewares.depth.DepthMiddleware"
OFFSITE = "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware"
OWN = "crawlproj.fetch.content.ContentMiddleware"


class Derived(SiteSpider):
    name = "derived"


def enabled(spider: type[SiteSpider], name: str, **project: object) -> list[str]:
    settings = Settings(project)
    spider.update_settings(settings)
    return build_component_list(settings.get_component_priority_dict_with_base(name))


def test_the_site_spider_has_no_middleware_for_requests_that_it_never_yields() -> None:
    assert enabled(SiteSpider, "SPIDER_MIDDLEWARES") == [
        "scrapy.spidermiddlewares.httperror.HttpErrorMiddleware"
    ]
    assert OFFSITE not in enabled(SiteSpider, "DOWNLOADER_MIDDLEWARES")


def test_a_spider_derived_from_it_may_yield_requests_and_has_them_all() -> None:
    assert DEPTH in enabled(Derived, "SPIDER_MIDDLEWARES")
    assert OFFSITE in enabled(Derived, "DOWNLOADER_MIDDLEWARES")


def test_what_a_project_asks_for_is_kept() -> None:
    wanted = {DEPTH: 900, OWN: 10}
    found = enabled(SiteSpider, "SPIDER_MIDDLEWARES", SPIDER_MIDDLEWARES=wanted)
    assert DEPTH in found
    assert OWN in found
