"""The garbage collector is set for a crawl, looks when pages fail, and is set back after it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from scrapy import signals
from scrapy.core.engine import ExecutionEngine
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from crawlproj.engine.garbage import MOST_BYTES, THRESHOLDS, RareCollections

OLDEST = 2
"""The generation that a whole collection is of."""

HANDLERS = dict.fromkeys(("http", "https", "ftp", "s3", "data", "file"))


@pytest.fixture
def crawler() -> Iterator[Any]:
    before = gc.get_threshold()
    crawler: Any = get_crawler(settings_dict={"DOWNLOAD_HANDLERS": HANDLERS})
    crawler.spider = crawler.spidercls.from_crawler(crawler, "nothing")
    crawler.engine = ExecutionEngine(crawler, lambda spider: None)
    crawler.kept = RareCollections.from_crawler(crawler)
    crawler.collections = []
    crawler.signals.send_catch_log(signals.spider_opened)

    def note(phase: str, about: dict[str, int]) -> None:
        if phase == "start" and about["generation"] == OLDEST:
            crawler.collections.append(about)

    gc.callbacks.append(note)
    yield crawler
    gc.callbacks.remove(note)
    crawler.engine.downloader.close()
    crawler.signals.send_catch_log(signals.spider_closed)
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_what_a_worker_has_loaded_is_exempt_until_the_spider_closes(crawler: Any) -> None:
    assert gc.get_threshold() == THRESHOLDS
    assert gc.get_freeze_count() > 10_000
    assert gc.isenabled()


def test_pages_that_fail_are_collected_before_they_fill_the_memory(crawler: Any) -> None:
    page = Response("http://a.test/", body=bytes(MOST_BYTES // 4))
    for _ in range(3):
        crawler.signals.send_catch_log(signals.spider_error, response=page, failure=None)
    assert not crawler.collections
    crawler.signals.send_catch_log(signals.item_error, response=page, failure=None)
    assert len(crawler.collections) == 1


def test_downloads_that_fail_count_too(crawler: Any) -> None:
    failed = crawler.engine.downloader.middleware.methods["process_exception"][-1]
    for _ in range(64):
        failed(request=None, exception=ValueError())
    assert len(crawler.collections) == 1
