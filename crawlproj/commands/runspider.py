"""`scrapy runspider FILE`: Scrapy's command. A spider of a file is on its own and goes without the
frontier, unless it is one of scrapy-redis's, whose start URLs are in Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.commands import runspider
from scrapy_redis.spiders import RedisMixin

from crawlproj.engine.commands import MakesCrawler
from crawlproj.operate.single_pages import leave_frontier

if TYPE_CHECKING:
    from scrapy import Spider


class Command(MakesCrawler, runspider.Command):
    def before_crawler(self, spider: type[Spider] | str) -> None:
        assert self.crawler_process is not None
        if isinstance(spider, type) and not issubclass(spider, RedisMixin):
            leave_frontier(self.crawler_process.settings)
