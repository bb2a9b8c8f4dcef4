"""`scrapy crawl site`: follows the links of its seeds, and reports each page. Yours to edit."""

from __future__ import annotations

from crawlproj import spider


class SiteSpider(spider.SiteSpider):
    """To have items of your own beside the rows of pages, say here what to make of each page; they
    go to output/site/items-*.jsonl (docs/spiders.md):

        def page(self, response, page):
            yield {"url": page.url, "headline": response.css("h1::text").get()}
    """

    name = "site"
