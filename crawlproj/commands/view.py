"""`scrapy view URL`: Scrapy's command, without the frontier."""

from __future__ import annotations

from scrapy.commands import view

from crawlproj.commands import fetch


class Command(fetch.Command, view.Command):
    pass
