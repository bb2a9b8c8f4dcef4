"""The parts that workers wrote: which there are, and whole rows of those that are damaged.

A part ends where its worker was stopped, perhaps in the middle of a row, and a file system that
lost its power may leave zeros anywhere in it. DuckDB reads what is whole, fast; what it stumbles
over is read again here, with care, into a copy that holds whole rows only.
"""

from __future__ import annotations

import csv
import json
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol

from crawlproj.errors import CrawlError
from crawlproj.output.kinds import CHOSEN_TYPES, CSV, JSONL, Kind

# A row may go over several lines, within quotes. One that goes on for longer is torn.
MOST_LINES_A_ROW = 200
MOST_ROW_BYTES = 16 << 20
MOST_HEADER_BYTES = 64 << 10
MOST_COLUMNS = 200
STILL_S = 10.0
"""A part that was written to within this time may be written to while it is read."""
CHUNK_BYTES = 1 << 20


class LeaveOut(Protocol):
    """Told the number of a line that is no whole row."""

    def __call__(self, line: int, *, torn: bool) -> None: ...


class PartsError(CrawlError):
    """Parts that cannot be read at all."""


def parts_of(folders: Iterable[Path], name: str, suffix: str) -> list[Path]:
    """The files of one kind and format, folder by folder in the order of their names, each once."""
    found: dict[Path, Path] = {}
    for folder in folders:
        for path in sorted(folder.glob(f"{name}-*.{suffix}")):
            if not path.is_file():
                raise PartsError(f"{path} is no file that can be read: mend it or take it away")
            found.setdefault(path.resolve(), path)
    return list(found.values())


def has_parts(folders: Iterable[Path], kind: Kind) -> bool:
    """Whether there is a part of that kind."""
    return any(parts_of(folders, kind.name, suffix) for suffix in kind.suffixes)


def sources_of(folders: Sequence[Path], kind: Kind, *, or_merged: bool) -> dict[str, list[Path]]:
    """Suffix → the parts of a kind; the merged files, if asked for, where there are no parts."""
    if or_merged and not has_parts(folders, kind):
        # Merged links are a row a link in CSV.
        suffixes = kind.suffixes if kind.table else dict.fromkeys((*kind.suffixes, CSV, JSONL))
        files = {one: [folder / f"{kind.name}.{one}" for folder in folders] for one in suffixes}
        return {one: list(filter(Path.is_file, paths)) for one, paths in files.items()}
    return {suffix: parts_of(folders, kind.name, suffix) for suffix in kind.suffixes}


def columns_of(part: Path, suffix: str, kind: Kind) -> tuple[str, ...] | None:
    """The columns that a part says it has: a version before may have written fewer, one after
    more. None if it does not say, or lacks those that rows are known by."""
    with part.open("rb") as file:
        line = file.readline(MOST_HEADER_BYTES)
    try:
        if suffix == CSV:
            names = tuple(next(csv.reader([line.decode().rstrip("\r\n")], strict=True), ()))
        else:
            names = tuple(json.loads(line))
    except (ValueError, TypeError, csv.Error, RecursionError):
        return None
    is_ours = {kind.time, *kind.key} <= set(names) and len(set(names)) == len(names)
    return names if is_ours and all(names) and len(names) <= MOST_COLUMNS else None


def chosen_types(folders: Sequence[Path], kind: Kind) -> dict[str, str]:
    """Column → type of those that users have chosen, where the kind has such; nothing for what is
    not known."""
    found: dict[str, str] = {}
    for folder in folders if kind.fields_file else ():
        with suppress(OSError, ValueError, AttributeError):
            types = json.loads((folder / kind.fields_file).read_bytes())
            found |= {name: type_ for name, type_ in types.items() if type_ in CHOSEN_TYPES}
    return {name: type_ for name, type_ in found.items() if name not in kind.columns}


def is_settled(part: Path) -> bool:
    """True if a part ends with a whole line and nobody seems to be writing to it."""
    about = part.stat()
    if not about.st_size:
        return True
    with part.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n" and time.time() - about.st_mtime > STILL_S


def copy_whole_lines(part: Path, to: Path, leave_out: LeaveOut) -> None:
    """Copy a part up to the end of its last line. What follows is torn, and counted."""
    lines = 0
    with part.open("rb") as file, to.open("wb") as copy:
        size = os.fstat(file.fileno()).st_size
        left = end = _end_of_last_line(file, size)
        file.seek(0)
        while left > 0 and (chunk := file.read(min(CHUNK_BYTES, left))):
            left -= len(chunk)
            lines += chunk.count(b"\n")
            copy.write(chunk)
    if end < size:
        leave_out(lines + 1, torn=True)


def _end_of_last_line(file: IO[bytes], size: int) -> int:
    while size > 0:
        start = max(0, size - CHUNK_BYTES)
        file.seek(start)
        found = file.read(size - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        size = start
    return 0


def copy_whole_rows(kind: Kind, suffix: str, source: Path, to: Path, leave_out: LeaveOut) -> int:
    """Copy the whole rows of a part one by one; returns how many there are."""
    columns = columns_of(source, suffix, kind) or tuple(kind.columns)
    with source.open("rb") as file, to.open("wb") as copy:
        if suffix == CSV:
            copy.write(_header(columns))
            rows = _csv_rows(kind, columns, file, leave_out)
        else:
            rows = _json_rows(kind, file, leave_out)
        return sum(1 for row in rows if copy.write(row))


class Lines:
    """The lines of a part, which can be looked at before they are taken."""

    def __init__(self, file: IO[bytes]) -> None:
        self._lines = iter(partial(file.readline, MOST_ROW_BYTES), b"")
        self._ahead: deque[bytes] = deque()
        self.number = 0

    def take(self) -> bytes:
        """The next line; empty after the last."""
        self.number += 1
        return self._ahead.popleft() if self._ahead else next(self._lines, b"")

    def peek(self, distance: int) -> bytes:
        """The line that far ahead; empty after the last."""
        while len(self._ahead) <= distance:
            self._ahead.append(next(self._lines, b""))
        return self._ahead[distance]


def _header(columns: Sequence[str]) -> bytes:
    return ",".join(columns).encode() + b"\r\n"


def _csv_rows(
    kind: Kind, columns: Sequence[str], file: IO[bytes], leave_out: LeaveOut
) -> Iterator[bytes]:
    header = _header(columns).strip()
    lines = Lines(file)
    while line := lines.take():
        line = _without_zeros(line, lines.number, leave_out)
        if line.strip() in (header, b""):
            continue
        if row := _csv_row(kind, columns, line) or _csv_row_of_lines(kind, columns, line, lines):
            yield row
        else:
            # The next worker to write to this file began, as always, with a header.
            torn = not _is_whole(line) or line.strip().endswith(header)
            leave_out(lines.number, torn=torn)


def _is_whole(record: bytes) -> bool:
    return record.endswith(b"\n") and record.count(b'"') % 2 == 0


def _without_zeros(line: bytes, number: int, leave_out: LeaveOut) -> bytes:
    """A line without the zeros before it, which are what a power cut made of another."""
    if line.startswith(b"\0"):
        leave_out(number, torn=True)
    return line.lstrip(b"\0")


def _csv_row_of_lines(
    kind: Kind, columns: Sequence[str], line: bytes, lines: Lines
) -> bytes | None:
    """The row that begins in this line, if it ends in one of the next; they are taken only then.

    A torn row with an open quote would otherwise swallow the rows after it.
    """
    record = line
    for distance in range(MOST_LINES_A_ROW if line.count(b'"') % 2 else 0):
        record += lines.peek(distance)
        if len(record) > MOST_ROW_BYTES:
            return None
        if row := _csv_row(kind, columns, record):
            for _ in range(distance + 1):
                lines.take()
            return row
    return None


def _csv_row(kind: Kind, columns: Sequence[str], record: bytes) -> bytes | None:
    if not _is_whole(record):
        return None
    try:
        text = record.decode().rstrip("\r\n")
        cells = next(csv.reader([text], strict=True)) if '"' in text else text.split(",")
        values = dict(zip(columns, cells, strict=True))
    except (ValueError, csv.Error):
        return None
    return f"{text}\r\n".encode() if _is_known(kind, values) else None


def _json_rows(kind: Kind, file: IO[bytes], leave_out: LeaveOut) -> Iterator[bytes]:
    for number, read in enumerate(iter(partial(file.readline, MOST_ROW_BYTES), b""), 1):
        line = _without_zeros(read, number, leave_out)
        row = line if _is_json_row(kind, line) else None
        if row is None and line.strip():
            leave_out(number, torn=True)
            # A worker may have written on after the torn row, which has no line end.
            start = line.rfind(b'{"%s":' % next(iter(kind.columns)).encode())
            if start > 0 and _is_json_row(kind, line[start:]):
                row = line[start:]
        if row:
            yield row


def _is_json_row(kind: Kind, line: bytes) -> bool:
    if not line.endswith(b"\n"):
        return False
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(values, dict) and _is_known(kind, values)


def _is_known(kind: Kind, values: Mapping[str, Any]) -> bool:
    """Whether a row says when it was and what it is of."""
    when = values.get(kind.time)
    return isinstance(when, str) and when[:2].isdigit() and all(map(values.get, kind.key))


CAREFUL = (CSV, JSONL)
"""Formats of parts that can be read with care."""
