"""Rows: what pipelines let through is written, read back and merged as it was, and runs nowhere."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector

from crawlproj.items import PAGE_COLUMNS, PageItem, utc_timestamp
from crawlproj.output.merge import merge
from crawlproj.output.rows import FORMULA_STARTS, CsvRowExporter, JsonRowExporter, harmless
from pipelines.text import TextPipeline
from pipelines.validate import ValidatePipeline
from tests.fuzz.harness import fuzzed

# fmt: off
TOKENS = st.sampled_from([
    "=", "+", "-", "@", "\t", "\r", "\n", "\r\n", "＝", "'", '"', '""', ",", ";", "\u2028",
    "\u2029", "\u0085", "\0", "\x1a", "\x1c", "\ud800", "\udc00", "\ufeff", "\ufffe", "\u202e",
    "\u00a0", "\\", "\\n", "a", "=cmd|' /C calc'!A0", "😀", "{", "}", "null",
])
# fmt: on
TEXT = st.lists(
    TOKENS | st.text(st.characters(exclude_categories=()), max_size=3), max_size=12
).map("".join)


class _Crawler:
    """As much of a crawler as a stats collector asks for."""

    settings = Settings()
    spider = None


def passed(item: PageItem) -> PageItem:
    """The item as it leaves the pipelines."""
    stats = MemoryStatsCollector(_Crawler())  # type: ignore[arg-type]
    for pipeline in (ValidatePipeline(stats), TextPipeline()):
        item = pipeline.process_item(item)
    return item


def page(number: int, title: str, kind: str) -> PageItem:
    return PageItem(
        url=f"http://example.com/{number}",
        status=200,
        title=title,
        content_type=kind,
        fetched_at=utc_timestamp(number),
        worker="w",
    )


def written(items: list[PageItem], exporter_class: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    exporter = exporter_class(file, encoding="utf-8", fields_to_export=PAGE_COLUMNS, **options)
    exporter.start_exporting()
    for item in items:
        exporter.export_item(item)
    exporter.finish_exporting()
    return file.getvalue()


@fuzzed(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5), examples=250)
def test_every_row_is_read_back_as_it_was_written(texts: list[tuple[str, str]]) -> None:
    items = [passed(page(number, *both)) for number, both in enumerate(texts)]
    titles = [(item.title, item.content_type) for item in items]
    table = written(items, CsvRowExporter)
    rows = list(csv.DictReader(io.StringIO(table.decode(), newline="")))
    cells = [(row["title"], row["content_type"]) for row in rows]
    assert cells == [(harmless(title), harmless(kind)) for title, kind in titles]
    assert not any(text.startswith(FORMULA_STARTS) for both in cells for text in both)
    lines = written(items, JsonRowExporter).splitlines(keepends=True)
    assert [json.loads(line)["title"] for line in lines] == [title for title, _ in titles]
    assert titles == [(item.title, item.content_type) for item in map(passed, items)]


@fuzzed(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5), examples=25)
def test_every_row_is_in_the_merged_file_once(texts: list[tuple[str, str]]) -> None:
    items = [passed(page(number, *both)) for number, both in enumerate(texts)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pages-w-0001.csv").write_bytes(written(items, CsvRowExporter))
        # The same rows again, the last one torn by a kill.
        (folder / "pages-x-0001.csv").write_bytes(written(items, CsvRowExporter)[:-3])
        merge(folder, folder)
        with (folder / "pages.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    assert [row["title"] for row in rows] == [harmless(item.title) for item in items]
