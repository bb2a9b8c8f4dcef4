"""`scrapy resume site`: lets workers go on after `scrapy pause`."""

from __future__ import annotations

from crawlproj.operate import control
from crawlproj.operate.command import StateCommand


class Command(StateCommand):
    summary = "Go on with a paused crawl"
    change = staticmethod(control.resume)
