"""Rows of ours written by their columns; everything else as Scrapy's exporters write it.

Scrapy looks up each field of each item: its name, its serializer, what to do where it is missing.
Our own rows have every column, of a plain type, so their values go straight to the `csv` and
`json` writers, which are the same and quote the same.

A page chooses its own title, and `=HYPERLINK(…)` in a CSV is run by whoever opens it in a
spreadsheet. So no cell begins the way a formula does: a leading apostrophe makes it text in every
spreadsheet (OWASP, "CSV Injection"). JSON is run by nobody and holds what was scraped.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cache
from operator import attrgetter
from typing import Any

from scrapy.exporters import JsonLinesItemExporter
from scrapy.utils.python import to_bytes

from crawlproj.engine.parts import CsvExporter
from crawlproj.items import COLUMNS

Values = Callable[[Any], tuple[Any, ...]]

# With the full-width forms, which some locales of spreadsheets take for the plain ones.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_NUMBERS = (int, float, Decimal)
_SUSPECT = frozenset(("'", *FORMULA_STARTS))


def harmless(cell: Any) -> Any:
    """The cell, such that it is no formula. Numbers stay as they are: `-1` is one. What has such an
    apostrophe already gets another, so that taking one away gives every cell as it was."""
    if type(cell) is str and cell[:1] not in _SUSPECT:  # as nearly always
        return cell
    if cell is None or isinstance(cell, _NUMBERS):
        return cell
    text = str(cell)
    return f"'{text}" if text.lstrip("'").startswith(FORMULA_STARTS) else cell


class CsvRowExporter(CsvExporter):
    """`csv` among the FEED_EXPORTERS."""

    def export_item(self, item: Any) -> None:
        read = _reader(type(item), self.fields_to_export)
        if read is None or not self.has_begun:
            super().export_item(item)
        else:
            self.write_row(map(harmless, read(item)))

    def cell(self, value: Any) -> Any:
        """Of names of fields too: a dict may have them from the page."""
        return harmless(value)


class JsonRowExporter(JsonLinesItemExporter):
    """`jsonlines` and its short names among the FEED_EXPORTERS."""

    def export_item(self, item: Any) -> None:
        columns: Any = self.fields_to_export
        read = _reader(type(item), columns)
        if read is None:
            super().export_item(item)
        else:
            row = self.encoder.encode(dict(zip(columns, read(item), strict=True)))
            self.file.write(to_bytes(row + "\n", self.encoding))


def _reader(kind: type, columns: Any) -> Values | None:
    """What reads these columns of a row of ours at once; None where Scrapy has to look closer."""
    if kind not in COLUMNS or not isinstance(columns, list | tuple):
        return None
    return _read_at_once(kind, tuple(columns))


@cache
def _read_at_once(kind: type, columns: tuple[Any, ...]) -> Values | None:
    is_known = len(columns) > 1 and set(columns) <= set(COLUMNS[kind])
    return attrgetter(*columns) if is_known else None
