"""`scrapy set site pages=5000`: the same as `scrapy change`."""

from __future__ import annotations

from crawlproj.operate.change_command import ChangeCommand


class Command(ChangeCommand):
    """Nothing but its name."""
