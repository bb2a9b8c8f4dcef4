"""SQL for the rows of a crawl: how DuckDB reads parts, and how cells are written to files.

Text only: nothing here runs anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from crawlproj.output.kinds import CSV, JSON, JSONL, NUMBER, PARQUET, TEXT, TIME
from crawlproj.output.rows import FORMULA_STARTS, harmless

MOST_LINE_BYTES = 16 << 20
"""Of JSON: a page's attributes or links may be long."""
MOST_CSV_ROW_BYTES = 2 << 20
CSV_BUFFER_BYTES = 8 << 20
_FORMULA = "[" + "".join(f"\\x{{{ord(start):X}}}" for start in FORMULA_STARTS) + "]"
ISO_TIME = "%Y-%m-%dT%H:%M:%S.%gZ"


def name(text: str) -> str:
    """A name of a column or a table."""
    return '"' + text.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text."""
    return "'" + text.replace("'", "''") + "'"


def names(columns: Iterable[str]) -> str:
    """Names of columns, as a list."""
    return ", ".join(map(name, columns))


def csv_reader(paths: Iterable[str], types: Mapping[str, str]) -> str:
    """A table of CSV files that have these columns. Rows of another shape, or with values of
    another type, are rejected: they are in `reject_errors` then."""
    return (
        f"read_csv({_list(paths)}, columns = {_struct(types)}, auto_detect = false, "
        "header = true, delim = ',', quote = '\"', escape = '\"', nullstr = '', "
        f"max_line_size = {MOST_CSV_ROW_BYTES}, buffer_size = {CSV_BUFFER_BYTES}, "
        "store_rejects = true, filename = '_part')"
    )


def json_reader(paths: Iterable[str], types: Mapping[str, str]) -> str:
    """A table of files with JSON lines. A line that is no object is a row of nulls."""
    return (
        f"read_json({_list(paths)}, columns = {_struct(types)}, format = 'newline_delimited', "
        f"ignore_errors = true, maximum_object_size = {MOST_LINE_BYTES}, filename = '_part')"
    )


def _list(paths: Iterable[str]) -> str:
    return "[" + ", ".join(map(literal, paths)) + "]"


def _struct(types: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{literal(one)}: {literal(kind)}" for one, kind in types.items()) + "}"


def type_as_read(kind: str, suffix: str) -> str:
    """What a column is read as: a list in a CSV is text, as JSON has it."""
    return TEXT if suffix == CSV and kind.endswith("[]") else kind


def cell_as_read(column: str, kind: str, suffix: str, *, is_text_never_null: bool) -> str:
    """The value of a cell: of a CSV without the apostrophe before what looks like a formula."""
    value = name(column)
    if kind != type_as_read(kind, suffix):
        return f"try_cast(try_cast({value} AS JSON) AS {kind})"
    if kind != TEXT:
        return value
    if suffix == CSV:
        value = (
            f"CASE WHEN starts_with({value}, '''') "
            f"THEN regexp_replace({value}, '^''(''*{_FORMULA})', '\\1') ELSE {value} END"
        )
    return f"coalesce({value}, '')" if is_text_never_null else value


def cast(column: str, kind: str, *, is_there: bool) -> str:
    """A column of a merged file as its table has it."""
    return f"{name(column) if is_there else 'NULL'}::{kind} AS {name(column)}"


def cell_as_written(column: str, kind: str, format_: str) -> str:
    """What a value becomes in a file of that format; the head of a CSV is a row of cells too."""
    write = {CSV: _in_csv, JSONL: _in_json, PARQUET: _in_parquet}[format_]
    head = harmless(column) if format_ == CSV else column
    return f"{write(name(column), kind)} AS {name(head)}"


def _in_csv(value: str, kind: str) -> str:
    if kind == TIME:
        return f"strftime({value}, '{ISO_TIME}')"
    if kind == NUMBER:
        return f"regexp_replace({value}::VARCHAR, '\\.0$', '')"
    if kind == TEXT:
        return _harmless(value)
    return value if kind.endswith("INT") else _harmless(f"to_json({value})::VARCHAR")


def _harmless(value: str) -> str:
    """As `rows.harmless`; an empty text is nothing in a CSV."""
    return (
        f"CASE WHEN regexp_matches({value}, '^''*{_FORMULA}') THEN '''' || {value} "
        f"ELSE nullif({value}, '') END"
    )


def _in_json(value: str, kind: str) -> str:
    return f"strftime({value}, '{ISO_TIME}')" if kind == TIME else value


def _in_parquet(value: str, kind: str) -> str:
    if kind == TIME:
        return f"{value}::TIMESTAMPTZ"
    return f"{value}::VARCHAR" if kind == JSON else value


def copy_options(format_: str) -> str:
    """Of COPY, for a file of that format, perhaps compressed."""
    kind, _, compression = format_.partition(".")
    return {
        CSV: "FORMAT csv, HEADER, NEW_LINE '\\r\\n', QUOTE '\"', ESCAPE '\"'",
        JSONL: "FORMAT json" + (", COMPRESSION zstd" if compression else ""),
        PARQUET: "FORMAT parquet, COMPRESSION zstd",
    }[kind]
