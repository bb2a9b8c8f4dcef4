"""The garbage collector is set for a crawl, and set back after it."""

from __future__ import annotations

import gc

from scrapy import signals
from scrapy.utils.test import get_crawler

from crawlproj.extensions.garbage import THRESHOLDS, RareCollections


def test_what_a_worker_has_loaded_is_exempt_until_the_spider_closes() -> None:
    before = gc.get_threshold()
    crawler = get_crawler()
    extension = RareCollections.from_crawler(crawler)
    crawler.signals.send_catch_log(signals.spider_opened)
    try:
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count() > 10_000
    finally:
        crawler.signals.send_catch_log(signals.spider_closed)
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
    assert gc.isenabled(), extension
