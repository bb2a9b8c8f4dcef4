"""The answer to a question, as people and programs read it: a table, CSV or JSON.

What pages say is in it, so no cell of a CSV is a formula and nothing in a table moves a terminal.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import IO, Any

from crawlproj.output.query import Answer
from crawlproj.output.rows import harmless

MOST_WIDTH = 80
"""Of a cell in a table; what is longer ends with an ellipsis."""


def write_table(answer: Answer, to: IO[str], clean: Callable[[str], str]) -> int:
    """Columns below each other, as wide as the first thousand rows need."""
    first = next(answer.batches, [])
    lines = [_cells(answer.columns, clean), *(_cells(row, clean) for row in first)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    is_number = [_is_number_column(first, at) for at in range(len(answer.columns))]
    _put(lines[0], widths, is_number, to)
    to.write("  ".join("─" * width for width in widths) + "\n")
    for line in lines[1:]:
        _put(line, widths, is_number, to)
    count = len(first)
    for batch in answer.batches:
        count += len(batch)
        for row in batch:
            _put(_cells(row, clean), widths, is_number, to)
    return count


def _cells(row: Any, clean: Callable[[str], str]) -> list[str]:
    texts = (clean(_text(value)).replace("\n", "\\n") for value in row)
    return [text if len(text) <= MOST_WIDTH else f"{text[: MOST_WIDTH - 1]}…" for text in texts]


def _is_number_column(rows: list[tuple[Any, ...]], at: int) -> bool:
    values = [row[at] for row in rows if row[at] is not None]
    return bool(values) and all(isinstance(value, int | float | Decimal) for value in values)


def _put(cells: list[str], widths: list[int], is_number: list[bool], to: IO[str]) -> None:
    padded = (
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, is_number, strict=True)
    )
    to.write("  ".join(padded).rstrip() + "\n")


def write_csv(answer: Answer, to: IO[str]) -> int:
    """With a header; what looks like a formula has an apostrophe before it."""
    writer = csv.writer(to)
    writer.writerow(map(harmless, answer.columns))
    count = 0
    for batch in answer.batches:
        count += len(batch)
        writer.writerows([harmless(_cell(value)) for value in row] for row in batch)
    return count


def _cell(value: Any) -> Any:
    return value if isinstance(value, int | float | Decimal) else _text(value)


def write_json(answer: Answer, to: IO[str]) -> int:
    """A list of objects, one a line. Of columns that are called the same, the second has `_1` at
    its end, as in Parquet."""
    names = _told_apart(answer.columns)
    count = 0
    to.write("[")
    for batch in answer.batches:
        for row in batch:
            to.write(",\n" if count else "\n")
            found = {name: plain(value) for name, value in zip(names, row, strict=True)}
            to.write(json.dumps(found, ensure_ascii=False))
            count += 1
    to.write("\n]\n" if count else "]\n")
    return count


def _told_apart(columns: list[str]) -> list[str]:
    """Names of which each is there once."""
    found: dict[str, None] = {}
    for column in columns:
        others = (f"{column}_{number}" for number in itertools.count(1))
        found[next(name for name in itertools.chain([column], others) if name not in found)] = None
    return list(found)


def _text(value: Any) -> str:
    found = plain(value)
    if found is None:
        return ""
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def plain(value: Any) -> Any:
    """A value that JSON can hold."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return _plain_scalar(value)


def _plain_scalar(value: Any) -> Any:
    if isinstance(value, datetime):
        utc = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return utc.isoformat(timespec="milliseconds") + "Z"
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value.hex() if isinstance(value, bytes) else str(value)
