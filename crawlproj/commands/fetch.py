"""`scrapy fetch URL`: Scrapy's command, without the frontier; no answer is a "no"."""

from __future__ import annotations

from crawlproj.operate.single_pages import FetchesOnePage


class Command(FetchesOnePage):
    pass
