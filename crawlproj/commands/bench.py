"""`scrapy bench`: Scrapy's command, without the frontier, on this machine."""

from __future__ import annotations

from scrapy.commands import bench
from scrapy.settings import BaseSettings

from crawlproj.operate.single_pages import WithoutFrontier


class Command(WithoutFrontier, bench.Command):
    def adapt(self, settings: BaseSettings, args: list[str]) -> None:
        settings.set("CRAWL_ALLOW_ADDRESSES", "loopback", priority="cmdline")
        settings.set("ROBOTSTXT_OBEY", False, priority="cmdline")
        extensions = settings.getdict("EXTENSIONS")
        extensions["scrapy.extensions.logstats.LogStats"] = 0  # it is all that a bench says
        settings.set("EXTENSIONS", extensions, priority="cmdline")
