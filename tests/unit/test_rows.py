"""Our own rows, written by their columns, look as Scrapy's exporters write them, and no cell of a
CSV is a formula."""

from __future__ import annotations

import csv
import io
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.exporters import CsvItemExporter, JsonLinesItemExporter

from crawlproj.items import COLUMNS, PAGE_COLUMNS, PageItem
from crawlproj.output import row_file
from crawlproj.output.feeds import FileFeedStorage
from crawlproj.output.items_file import ItemsFile
from crawlproj.output.kinds import ITEMS, JSONL, LEASES_SUFFIX
from crawlproj.output.rows import CsvRowExporter, JsonRowExporter, harmless

HOSTILE = [
    "",
    'a "quoted" title',
    "comma, semicolon; tab\t",
    "two\nlines",
    "carriage\r\nreturn",
    "'=1+1",
    "žluťoučký 🐴 \u2028 \x00 end",
    '"',
    '","',
]
PAIRS = [(CsvRowExporter, CsvItemExporter), (JsonRowExporter, JsonLinesItemExporter)]


def a_page(title: str = "", **changes: Any) -> PageItem:
    given_: dict[str, Any] = {"url": "http://a.test/", "status": 200, "title": title}
    return PageItem(**given_ | {"fetched_at": "2025-01-31", "worker": "w"} | changes)


def written(exporter_class: Any, items: list[Any], columns: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    exporter = exporter_class(file, fields_to_export=columns, encoding="utf-8", **options)
    exporter.start_exporting()
    for item in items:
        exporter.export_item(item)
    exporter.finish_exporting()
    return file.getvalue()


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@pytest.mark.parametrize(
    "columns",
    [
        list(PAGE_COLUMNS),
        ["title", "url"],
        ["title"],
        ["title", "unknown"],
        {"title": "Title", "url": "Address"},
        None,
    ],
)
def test_rows_of_hostile_text_are_written_as_scrapy_writes_them(
    ours: Any, theirs: Any, columns: Any
) -> None:
    pages = [a_page(title, priority=1.5, size=7) for title in HOSTILE]
    titles = HOSTILE if ours is JsonRowExporter else map(harmless, HOSTILE)
    harmless_pages = [a_page(title, priority=1.5, size=7) for title in titles]
    assert written(ours, pages, columns) == written(theirs, harmless_pages, columns)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@given(title=st.text(st.characters(exclude_categories=["Cs"])), size=st.integers())
def test_any_text_is_written_as_scrapy_writes_it(
    ours: Any, theirs: Any, title: str, size: int
) -> None:
    pages, columns = [a_page(), a_page(title, size=size)], list(PAGE_COLUMNS)
    cell = title if ours is JsonRowExporter else harmless(title)
    harmless_pages = [a_page(), a_page(cell, size=size)]
    assert written(ours, pages, columns) == written(theirs, harmless_pages, columns)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_items_of_other_classes_stand_in_the_same_file(ours: Any, theirs: Any) -> None:
    items = [a_page("one"), {"title": ["a", "b"], "url": b"bytes"}, a_page("two")]
    if ours is JsonRowExporter:
        items[1] = {"title": ["a", "b"], "url": "text"}
    columns = ["url", "title"]
    assert written(ours, items, columns) == written(theirs, items, columns)


def test_options_of_a_feed_hold() -> None:
    pages = [a_page("a;b"), a_page("c")]
    columns = ["title", "status"]
    options = {"delimiter": ";", "include_headers_line": False}
    assert written(CsvRowExporter, pages, columns, **options) == written(
        CsvItemExporter, pages, columns, **options
    )


def test_every_class_of_ours_has_its_columns() -> None:
    assert {kind.__name__ for kind in COLUMNS} == {"PageItem", "FailureItem", "StatsItem"}


def cells(items: list[Any], columns: Any) -> list[list[str]]:
    table = written(CsvRowExporter, items, columns).decode()
    return list(csv.reader(io.StringIO(table, newline="")))


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＠"])
def test_no_cell_of_a_csv_begins_as_a_formula(start: str) -> None:
    formula = f"{start}1+1"
    pages = [a_page(formula), a_page(formula)]
    assert cells(pages, ["title", "status"])[1:] == [[f"'{formula}", "200"]] * 2
    items = [{formula: formula, "joined": [formula, "=y"], "n": -1.5, "bytes": formula.encode()}]
    safe = f"'{formula}"
    assert cells(items, None) == [
        [safe, "joined", "n", "bytes"],
        [safe, f"{safe},=y", "-1.5", safe],
    ]


def test_json_holds_what_was_scraped_whatever_a_spreadsheet_would_make_of_it() -> None:
    items = [{"phone": "+43 1 234", "note": "-", "sum": "=1+1"}, a_page("@home")]
    lines = written(JsonRowExporter, items, None).splitlines()
    assert json.loads(lines[0]) == items[0]
    assert json.loads(lines[1])["title"] == "@home"


def test_numbers_urls_and_plain_text_are_cells_as_they_are() -> None:
    item = {"n": -1, "x": -1.5, "url": "http://a.test/?a=-1", "t": "a = b", "e": "", "none": None}
    assert cells([item], None)[1] == ["-1", "-1.5", "http://a.test/?a=-1", "a = b", "", ""]


def test_an_item_that_comes_while_leases_are_saved_waits_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"{ITEMS}-1.{JSONL}"
    file = ItemsFile(path, "ab", lambda: b"7 a\n")
    leases = path.with_suffix(LEASES_SUFFIX)

    def sync_and_write(number: int) -> None:
        if not path.exists():  # so far only the leases are being saved
            file.write(b'{"n": 2}\n')
        os.fsync(number)

    file.write(b'{"n": 1}\n')
    monkeypatch.setattr(row_file, "_sync_data", sync_and_write)
    file.save()
    assert (path.read_bytes(), leases.read_bytes()) == (b'{"n": 1}\n', b"7 a\n")
    file.close()
    assert path.read_bytes().count(b"\n") == leases.read_bytes().count(b"\n") == 2
    assert file.closed


def test_a_part_whose_leases_could_not_be_saved_is_closed_by_the_next_saving(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "later"
    folder.touch()
    path = folder / f"{ITEMS}-1.{JSONL}"
    file = ItemsFile(path, "ab", lambda: b"7 a\n")
    file.write(b'{"n": 1}\n')
    with pytest.raises(OSError, match="later"):
        file.close()
    folder.unlink()
    file.save()
    assert file.closed
    assert path.read_bytes() == b'{"n": 1}\n'


def test_a_row_that_comes_while_others_are_saved_is_there_when_the_file_is_closed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows"
    is_closing = threading.Event()

    class Watched(row_file.RowFile):
        def save(self) -> None:
            if threading.current_thread() is closing:
                is_closing.set()
            super().save()

    file = Watched(lambda: path.open("ab"))
    closing = threading.Thread(target=file.close)

    def sync_while_another_closes(number: int) -> None:
        if closing.ident is None:
            file.write(b"second\n")
            closing.start()
            assert is_closing.wait(10)
        os.fsync(number)

    file.write(b"first\n")
    monkeypatch.setattr(row_file, "_sync_data", sync_while_another_closes)
    file.save()
    closing.join()
    assert file.closed
    assert path.read_bytes() == b"first\nsecond\n"


def test_a_file_is_full_by_its_size_or_its_age(tmp_path: Path) -> None:
    file = row_file.RowFile(lambda: (tmp_path / "rows").open("ab"))
    assert not file.is_full(6, 1000)
    file.write(b"first\n")
    assert file.is_full(6, 1000)
    assert file.is_full(1000, 0)


def test_a_part_of_items_is_taken_if_only_its_leases_are_there(tmp_path: Path) -> None:
    storage = FileFeedStorage(str(tmp_path / "items-w-0001.jsonl"))
    assert not storage.would_add
    (tmp_path / "items-w-0001.leases").touch()
    assert storage.would_add
