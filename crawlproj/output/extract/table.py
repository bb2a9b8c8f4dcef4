"""The files of what is extracted: `extracted-<worker>-<number>.csv` and `.jsonl` in the crawl's
folder, and `extracted.fields.json`, by which `scrapy merge` and `scrapy query` know types.

Rows are taken into memory by the event loop; whoever saves, in a thread, has them on disk.
"""

from __future__ import annotations

import csv
import io
import json
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import parsel

from crawlproj.config.extract_rules import NUMBER, WHOLE, Field, columns_of, parse
from crawlproj.output import kinds
from crawlproj.output.extract.reading import fields_of
from crawlproj.output.kinds import EXTRACTED
from crawlproj.output.part_series import PartSeries
from crawlproj.output.rows import harmless
from crawlproj.output.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.http import TextResponse

    from crawlproj.items import PageItem

_SQL = {WHOLE: kinds.WHOLE, NUMBER: kinds.NUMBER}


class ExtractTable:
    """What one worker writes. One thread adds pages and closes, any may save."""

    def __init__(
        self, folder: Path, worker: str, rules: str, *, rotate_bytes: float, rotate_s: float
    ) -> None:
        self._records = parse(rules)
        fields = columns_of(self._records)
        self._columns = (*EXTRACTED.columns, *fields)
        self._folder = folder
        self._types = {name: _sql_type(field) for name, field in fields.items()}
        self._has_types = False
        self._rows: deque[dict[str, Any]] = deque()
        self._saving = threading.RLock()
        self._lines, self._cells = (
            PartSeries(
                folder,
                f"{EXTRACTED.name}-{worker}",
                f".{suffix}",
                rotate_bytes=rotate_bytes,
                rotate_s=rotate_s,
            )
            for suffix in (kinds.JSONL, kinds.CSV)
        )

    def add(self, response: TextResponse, page: PageItem) -> None:
        """Take in a page: a row for each record that it has."""
        records = [record for record in self._records if record.is_of(page.url)]
        root = _root(response) if records else None
        for record in records:
            found = fields_of(record, root, response.url) if root is not None else None
            if found is not None:
                own = (page.url, record.name, page.fetched_at, page.lease)
                self._rows.append(dict(zip(EXTRACTED.columns, own, strict=True)) | found)

    def save(self) -> None:
        """Have the rows of all pages on disk that were added before this call, or raise OSError."""
        with self._saving:
            self._write()
            self._lines.save()
            self._cells.save()

    def close(self) -> None:
        """Save, and end the files."""
        with self._saving:
            self._write()
            self._lines.end_part()
            self._cells.end_part()
            self.save()

    def _write(self) -> None:
        if not self._rows:
            return
        if not self._has_types:
            self._write_types()
        rows = [self._rows.popleft() for _ in range(len(self._rows))]
        lines = (json.dumps({one: row.get(one) for one in self._columns}) for row in rows)
        self._lines.write("".join(f"{line}\n" for line in lines).encode())
        header = [] if self._cells.is_begun else [self._columns]
        cells = ([_cell(row.get(one)) for one in self._columns] for row in rows)
        self._cells.write(_as_csv([*header, *cells]))

    def _write_types(self) -> None:
        """All workers write the same."""
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(self._folder / EXTRACTED.fields_file, json.dumps(self._types))
        self._has_types = True


def _root(response: TextResponse) -> Any:
    try:
        return response.selector.root
    except ValueError:  # a <base> that is no URL, of which Scrapy makes an error
        return parsel.Selector(response.text, type="html").root


def _sql_type(field: Field) -> str:
    return _SQL.get(field.type, kinds.TEXT) + ("[]" if field.is_list else "")


def _cell(value: Any) -> Any:
    return harmless(json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value)


def _as_csv(rows: Iterable[Any]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode("utf-8", "replace")
