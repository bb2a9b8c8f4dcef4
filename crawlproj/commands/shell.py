"""`scrapy shell URL`: Scrapy's command, without the frontier."""

from __future__ import annotations

from scrapy.commands import shell
from scrapy.settings import BaseSettings

from crawlproj.operate.single_pages import WithoutFrontier, open_local_files


class Command(WithoutFrontier, shell.Command):
    def adapt(self, settings: BaseSettings) -> None:
        open_local_files(settings)
        settings.set("DUPEFILTER_CLASS", "scrapy.dupefilters.BaseDupeFilter", priority="cmdline")
