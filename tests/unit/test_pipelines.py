"""Each pipeline by itself, and all of them in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from scrapy.exceptions import DropItem
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.misc import load_object
from scrapy.utils.test import get_crawler

from crawlproj.items import FailureItem, PageItem, StatsItem
from crawlproj.output.pipelines.stats import MOST_NAMES
from crawlproj.output.pipelines.text import MAX_CHARS, one_line
from pipelines import ITEM_PIPELINES
from pipelines.stats import StatsPipeline
from pipelines.text import TextPipeline
from pipelines.validate import ValidatePipeline

NOW = "2025-01-31T09:05:00.250Z"


def a_page(**changes: Any) -> PageItem:
    given: dict[str, Any] = {"url": "http://a.test/", "status": 200}
    return PageItem(**given | {"fetched_at": NOW, "worker": "w1"} | changes)


def a_failure(**changes: Any) -> FailureItem:
    given = {"url": "http://a.test/", "kind": "transient", "reason": "timeout"}
    return FailureItem(**given | {"failed_at": NOW, "worker": "w1"} | changes)


def built(pipeline_class: Any) -> tuple[Any, dict[str, Any]]:
    """The pipeline as Scrapy makes it, and the stats it counts in."""
    crawler = get_crawler()
    crawler.stats = MemoryStatsCollector(crawler)
    return pipeline_class.from_crawler(crawler), crawler.stats.get_stats()


@pytest.mark.parametrize("item", [a_page(), a_failure(), StatsItem(at=NOW, worker="w1"), {"a": 1}])
def test_a_good_row_and_a_foreign_item_pass_validation(item: Any) -> None:
    pipeline, stats = built(ValidatePipeline)
    assert pipeline.process_item(item) is item
    assert stats == {}


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (a_page(url=""), "PageItem.url must not be empty, not ''"),
        (a_page(url=None), "PageItem.url must be str, not None"),
        (a_page(status="200"), "PageItem.status must be int, not '200'"),
        (a_page(status=True), "PageItem.status must be int, not True"),
        (a_page(size=-1), "PageItem.size must not be negative, not -1"),
        (a_page(priority=float("nan")), "PageItem.priority must be a finite number, not nan"),
        (a_page(title=b"x"), "PageItem.title must be str, not b'x'"),
        (
            a_page(fetched_at="yesterday"),
            "PageItem.fetched_at must be a time such as 2025-01-31T09:05:00.250Z, not 'yesterday'",
        ),
        (
            a_failure(kind="odd"),
            "FailureItem.kind must be one of transient, permanent, not 'odd'",
        ),
        (a_failure(reason=""), "FailureItem.reason must not be empty, not ''"),
    ],
)
def test_a_bad_row_is_dropped_with_its_reason_and_counted(item: Any, reason: str) -> None:
    pipeline, stats = built(ValidatePipeline)
    with pytest.raises(DropItem) as dropped:
        pipeline.process_item(item)
    assert str(dropped.value) == reason
    field = reason.partition(" ")[0]
    assert stats == {"crawl/items/invalid": 1, f"crawl/items/invalid/{field}": 1}


def test_a_priority_may_be_negative() -> None:
    pipeline, _ = built(ValidatePipeline)
    assert pipeline.process_item(a_page(priority=-3)).priority == -3


@pytest.mark.parametrize(
    ("title", "written"),
    [
        ("plain", "plain"),
        ("  two\r\n\t lines\xa0", "two lines"),
        ("nul\x00and\x1bescape\x85", "nul and escape"),
        ("half \ud83d character", "half \ufffd character"),
        ("whole 😀 character", "whole 😀 character"),
        ("line\u2028separator\u2028", "line\u2028separator\u2028"),
        ('she said "hi", twice', 'she said "hi", twice'),
        ("x" * 600, "x" * 499 + "…"),
        (" " * 100_000 + "late", ""),
    ],
)
def test_a_title_becomes_one_clean_line(title: str, written: str) -> None:
    assert TextPipeline().process_item(a_page(title=title)).title == written


def test_reasons_and_content_types_are_cleaned_as_titles_are() -> None:
    pipeline = TextPipeline()
    assert pipeline.process_item(a_failure(reason="reset\nby peer")).reason == "reset by peer"
    long_type = pipeline.process_item(a_page(content_type="x\0" * 200)).content_type
    assert len(long_type) == MAX_CHARS["content_type"]


def test_a_line_that_just_fits_is_not_cut() -> None:
    assert one_line("x" * 500, 500) == "x" * 500


@dataclass(frozen=True)
class Frozen:
    name: str
    tags: tuple[str, ...] = ("a",)


def test_foreign_items_keep_their_text_but_for_what_cannot_be_encoded() -> None:
    pipeline = TextPipeline()
    item = {"title": " a\n b ", "deep": [{"k\ud800": ("\udfff", 1)}], "n": 1.5, "none": None}
    cleaned = pipeline.process_item(item)
    assert cleaned["title"] == " a\n b "
    assert cleaned["deep"] == [{"k\ufffd": ("\ufffd", 1)}]
    assert pipeline.process_item(Frozen("x")) == Frozen("x")


def test_text_nested_in_itself_does_not_hang_the_pipeline() -> None:
    loop: list[Any] = ["x"]
    loop.append(loop)
    assert TextPipeline().process_item({"loop": loop})["loop"] is loop


def test_pages_failures_and_foreign_items_are_counted_by_what_they_are() -> None:
    pipeline, stats = built(StatsPipeline)
    for item in (
        a_page(size=10, content_type="text/HTML; charset=utf-8"),
        a_page(size=5, url="https://b.test:81/x", status=404),
        a_page(url="http://[bad"),
        a_failure(),
        a_failure(kind="permanent", reason="dns"),
        StatsItem(at=NOW, worker="w1"),
        {"foreign": True},
    ):
        assert pipeline.process_item(item) is item
    assert stats == {
        "crawl/pages": 3,
        "crawl/bytes": 15,
        "crawl/status/200": 2,
        "crawl/status/404": 1,
        "crawl/content_type/text/html": 1,
        "crawl/content_type/none": 2,
        "crawl/host/a.test": 1,
        "crawl/host/b.test:81": 1,
        "crawl/host/none": 1,
        "crawl/failures": 2,
        "crawl/failure/transient": 1,
        "crawl/failure/permanent": 1,
        "crawl/reason/timeout": 1,
        "crawl/reason/dns": 1,
        "crawl/items": 1,
    }


def test_a_farm_of_hosts_cannot_fill_the_memory_of_the_stats() -> None:
    pipeline, stats = built(StatsPipeline)
    for number in range(3 * MOST_NAMES["host"]):
        pipeline.process_item(a_page(url=f"http://h{number}.test/"))
    hosts = [name for name in stats if name.startswith("crawl/host/")]
    assert len(hosts) == MOST_NAMES["host"] + 1
    assert stats["crawl/host/other"] == 2 * MOST_NAMES["host"]


def test_every_pipeline_loads_and_a_hostile_title_passes_them_all_in_one_line() -> None:
    settings = Settings({"ITEM_PIPELINES": ITEM_PIPELINES})
    order = sorted(ITEM_PIPELINES, key=settings.getdict("ITEM_PIPELINES").__getitem__)
    item: Any = a_page(title="\n \x00=cmd|'/c calc'!A1\ud800")
    for path in order:
        pipeline_class = load_object(path)
        wants_crawler = hasattr(pipeline_class, "from_crawler")
        pipeline = built(pipeline_class)[0] if wants_crawler else pipeline_class()
        item = pipeline.process_item(item)
    assert item.title == "=cmd|'/c calc'!A1\ufffd"
