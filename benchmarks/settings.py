"""The `fast` profile as the benchmarks run it: rows to CSV only, as the others write them."""

from scrapy.settings import BaseSettings

from crawlproj.addon import Addon
from settings.fast import *  # noqa: F403

ADDONS = {"benchmarks.settings.CsvOnly": 0}
STATS_CLASS = "benchmarks.stats.KeptStats"


class CsvOnly(Addon):
    """The add-on without the feeds that are no CSV."""

    @classmethod
    def update_pre_crawler_settings(cls, settings: BaseSettings) -> None:
        super().update_pre_crawler_settings(settings)
        _leave_csv(settings)

    def update_settings(self, settings: BaseSettings) -> None:
        super().update_settings(settings)
        _leave_csv(settings)


def _leave_csv(settings: BaseSettings) -> None:
    feeds = settings.getdict("FEEDS")
    csv = {uri: feed for uri, feed in feeds.items() if feed["format"] == "csv"}
    settings.set("FEEDS", csv, priority=settings.getpriority("FEEDS") or 0)
