"""The `fast` profile as the benchmarks run it: rows to CSV only, as the others write them."""

from settings.fast import *  # noqa: F403
from settings.fast import FEEDS

STATS_CLASS = "benchmarks.stats.KeptStats"
FEEDS = {uri: feed for uri, feed in FEEDS.items() if feed["format"] == "csv"}
