"""`scrapy change site pages=5000`: changes what a crawl goes by, while it goes on."""

from __future__ import annotations

from crawlproj.operate.change_command import ChangeCommand


class Command(ChangeCommand):
    """Nothing but its name."""
