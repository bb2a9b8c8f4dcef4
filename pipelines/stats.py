"""Counts what is about to be written, in Scrapy's stats, under `crawl/…`. Yours to edit."""

from __future__ import annotations

from crawlproj.output.pipelines import stats


class StatsPipeline(stats.StatsPipeline):
    """Pages by status, content type and host, failures by reason, items of your own by number."""
