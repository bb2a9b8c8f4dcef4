"""`scrapy runspider FILE`: Scrapy's command. A spider of a file is on its own and goes without the
frontier, unless it is one of scrapy-redis's, whose start URLs are in Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.commands import runspider
from scrapy_redis.spiders import RedisMixin

from crawlproj.operate.single_pages import leave_frontier

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler


class Command(runspider.Command):
    def _create_crawler(self, spidercls: type[Spider] | str) -> Crawler:
        assert self.crawler_process is not None
        if isinstance(spidercls, type) and not issubclass(spidercls, RedisMixin):
            leave_frontier(self.crawler_process.settings)
        return super()._create_crawler(spidercls)
