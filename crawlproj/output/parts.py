"""The parts that workers wrote: which kinds there are, and their rows, torn ones left out.

A part ends where its worker was stopped, perhaps in the middle of a row; the next worker to write
to it may have gone on from there.
"""

from __future__ import annotations

import csv
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from crawlproj.items import FAILURE_COLUMNS, PAGE_COLUMNS, STATS_COLUMNS
from crawlproj.output.merge_report import KindReport

# A row may go over several lines, within quotes. One that goes on for longer is torn.
MOST_LINES_A_ROW = 200

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*")
GOOD_STATUS = re.compile(r"[123]\d\d")
FETCHED_WELL = "fetched well"
CSV_END = "\r\n"


class Row(NamedTuple):
    """What merging needs of a row. Rows sort as the result is sorted."""

    time: str
    key: str
    text: str
    mends: str
    """Why an earlier failure of the URL counts no longer, if it does not."""


class Kind(NamedTuple):
    """A kind of part: `<name>-*<suffix>` → `<name><suffix>`."""

    name: str
    suffix: str
    columns: tuple[str, ...]
    time: str
    key: tuple[str, ...]

    @property
    def file(self) -> str:
        return self.name + self.suffix

    @property
    def header(self) -> str:
        return ",".join(self.columns) + CSV_END if self.suffix == ".csv" else ""


PAGES_CSV = Kind("pages", ".csv", PAGE_COLUMNS, "fetched_at", ("url",))
PAGES_JSONL = Kind("pages", ".jsonl", PAGE_COLUMNS, "fetched_at", ("url",))
FAILURES = Kind("failures", ".csv", FAILURE_COLUMNS, "failed_at", ("url",))
STATS = Kind("stats", ".csv", STATS_COLUMNS, "at", ("worker", "at"))
FORGOTTEN = Kind("forgotten", ".csv", ("url", "forgotten_at"), "forgotten_at", ("url",))
"""Dead letters that were thrown away: read to leave failures out, and not merged themselves."""

ITEMS = Kind("items", ".jsonl", (), "", ())
# Pages before failures, which are compared with them.
KINDS = (PAGES_CSV, PAGES_JSONL, FAILURES, STATS, ITEMS)


def parts_of(folder: Path, kind: Kind) -> list[Path]:
    """The files of one kind, in the order of their names."""
    return sorted(folder.glob(f"{kind.name}-*{kind.suffix}"))


def rows_of(
    kind: Kind, parts: list[Path], report: KindReport, is_apart: bool = False
) -> Iterator[Row]:
    """The rows of these parts; what is left out of them is counted in the report. Items are known
    by their text, or each is another (`is_apart`)."""
    items = partial(_item_rows, is_apart=is_apart)
    read = _csv_rows if kind.suffix == ".csv" else items if kind is ITEMS else _json_rows
    return chain.from_iterable(read(kind, part, report) for part in parts)


class Lines:
    """The lines of a part, which can be looked at before they are taken."""

    def __init__(self, file: Iterable[bytes]) -> None:
        self._file = iter(file)
        self._ahead: deque[bytes] = deque()
        self.number = 0

    def take(self) -> bytes:
        self.number += 1
        return self._ahead.popleft() if self._ahead else next(self._file, b"")

    def peek(self, distance: int) -> bytes:
        while len(self._ahead) <= distance:
            self._ahead.append(next(self._file, b""))
        return self._ahead[distance]


def _csv_rows(kind: Kind, part: Path, report: KindReport) -> Iterator[Row]:
    header = kind.header.strip().encode()
    with part.open("rb") as file:
        lines = Lines(file)
        while line := lines.take():
            if line.strip() in (header, b""):
                continue
            if row := _csv_row(kind, line) or _csv_row_of_lines(kind, line, lines):
                yield row
            else:
                # The next worker to write to this file began, as always, with a header.
                torn = not _is_whole(line) or line.strip().endswith(header)
                report.leave_out(part, lines.number, torn)


def _is_whole(record: bytes) -> bool:
    return record.endswith(b"\n") and record.count(b'"') % 2 == 0


def _csv_row_of_lines(kind: Kind, line: bytes, lines: Lines) -> Row | None:
    """The row that begins in this line, if it ends in one of the next; they are taken only then.

    A torn row with an open quote would otherwise swallow the rows after it.
    """
    record = line
    for distance in range(MOST_LINES_A_ROW if line.count(b'"') % 2 else 0):
        record += lines.peek(distance)
        if row := _csv_row(kind, record):
            for _ in range(distance + 1):
                lines.take()
            return row
    return None


def _csv_row(kind: Kind, record: bytes) -> Row | None:
    if not _is_whole(record):
        return None
    try:
        text = record.decode().rstrip("\r\n")
        fields = next(csv.reader([text], strict=True)) if '"' in text else text.split(",")
        return _row(kind, dict(zip(kind.columns, fields, strict=True)), text + CSV_END)
    except (ValueError, csv.Error):
        return None


def _json_rows(kind: Kind, part: Path, report: KindReport) -> Iterator[Row]:
    with part.open("rb") as file:
        for number, line in enumerate(file, 1):
            row = _json_row(kind, line)
            if row is None:
                report.leave_out(part, number, torn=True)
                # A worker may have written on after the torn row, which has no line end.
                start = line.rfind(b'{"%s":' % kind.columns[0].encode())
                row = _json_row(kind, line[start:]) if start > 0 else None
            if row:
                yield row


def _item_rows(kind: Kind, part: Path, report: KindReport, *, is_apart: bool) -> Iterator[Row]:
    with part.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                json.loads(line if line.endswith(b"\n") else b"")
            except (ValueError, RecursionError):
                report.leave_out(part, number, torn=True)
            else:
                place = f"{part.name} {number:012}"
                key = place if is_apart else blake2b(line, digest_size=16).hexdigest()
                yield Row(place, key, line.decode(), "")


def _json_row(kind: Kind, line: bytes) -> Row | None:
    if not line.endswith(b"\n"):
        return None
    try:
        values = json.loads(line)
        return _row(kind, values, line.decode()) if isinstance(values, dict) else None
    except (ValueError, RecursionError):
        return None


def _row(kind: Kind, values: Mapping[str, Any], text: str) -> Row | None:
    time = values.get(kind.time)
    key = [values.get(column) for column in kind.key]
    if not isinstance(time, str) or not TIME.fullmatch(time) or not all(key):
        return None
    return Row(time, " ".join(map(str, key)), text, _mends(kind, values))


def _mends(kind: Kind, values: Mapping[str, Any]) -> str:
    if kind is FORGOTTEN:
        return FORGOTTEN.name
    is_good = kind.name == "pages" and GOOD_STATUS.fullmatch(str(values.get("status")))
    return FETCHED_WELL if is_good else ""
