"""`scrapy stop site`: has all workers, everywhere, finish what they hold and leave."""

from __future__ import annotations

from crawlproj.operate import control
from crawlproj.operate.command import StateCommand


class Command(StateCommand):
    summary = "Stop a crawl gracefully, on all machines; starting it again resumes it"
    change = staticmethod(control.stop)
