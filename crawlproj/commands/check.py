"""`scrapy check`: Scrapy's command, without the frontier."""

from __future__ import annotations

from scrapy.commands import check

from crawlproj.operate.single_pages import WithoutFrontier


class Command(WithoutFrontier, check.Command):
    pass
