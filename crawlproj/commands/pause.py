"""`scrapy pause site`: keeps all workers from beginning another page, until `scrapy resume`."""

from __future__ import annotations

from crawlproj.operate import control
from crawlproj.operate.command import StateCommand


class Command(StateCommand):
    summary = "Pause a crawl on all machines; workers stay and wait"
    change = staticmethod(control.pause)
