"""What settings and other rooms name of this room: ours with a Scrapy that they were tested with,
else its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawlproj.engine.versions import is_tested

if TYPE_CHECKING or is_tested():
    from crawlproj.engine.counts import DownloaderStats
    from crawlproj.engine.downloader import Downloader
    from crawlproj.engine.exporters import CsvExporter
    from crawlproj.engine.feeds import FeedExporter
    from crawlproj.engine.item_pipelines import ItemPipelines
    from crawlproj.engine.stats import Stats
else:
    from scrapy.core.downloader import Downloader
    from scrapy.downloadermiddlewares.stats import DownloaderStats
    from scrapy.pipelines import ItemPipelineManager as ItemPipelines
    from scrapy.statscollectors import MemoryStatsCollector as Stats

    from crawlproj.engine.plain import CsvExporter, FeedExporter

__all__ = ["CsvExporter", "Downloader", "DownloaderStats", "FeedExporter", "ItemPipelines", "Stats"]
