"""`scrapy view URL`: Scrapy's command, without the frontier."""

from __future__ import annotations

from scrapy.commands import view

from crawlproj.operate.single_pages import FetchesOnePage


class Command(FetchesOnePage, view.Command):
    pass
