"""Items of spiders' own classes, merged: those of a request that was made twice are there once.

Items have neither key nor time. Beside each part `items-….jsonl` is a file `items-….leases` with a
line for each item: the lease under which its page was fetched, and what its request is known by (a
hash of the URL, and the identity of a request that is no plain GET: frontier/request_identity.py).
Of a request that was made more than once, the items of the last lease count: the others are those
of a worker that died before it could settle it, or of an attempt that failed half-way. A lease that
was refused (refused.py) counts as before all others. Items that are alike and were yielded twice
stay two.

A version before knew requests by their URLs alone. Parts without such a file, which are older
still, are treated as they were then: items that are alike to the letter are one where a worker may
have been lost, and as many as were yielded where none was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

from crawlproj.output.database import Database
from crawlproj.output.items_file import PAGE_DIGITS, page_hash
from crawlproj.output.kinds import (
    ITEMS,
    ITEMS_FILE,
    JSON,
    JSONL,
    LEASES_SUFFIX,
    PARQUET,
    REFUSED,
    TEXT,
)
from crawlproj.output.merge_report import FileReport, Intake
from crawlproj.output.parts import MOST_COLUMNS, parts_of
from crawlproj.output.sql import MOST_LINE_BYTES, cell_as_written, copy_options, literal
from crawlproj.output.summary import SUMMARY

_COLUMNS = "{'part': 'INTEGER', 'line': 'BIGINT', 'page': 'VARCHAR', 'lease': 'BIGINT'}"

EMPTY_TABLE = f"CREATE TABLE {ITEMS} (json {JSON})"
"""Of a crawl without items: nobody knows what fields they would have."""


def may_repeat(folder: Path) -> bool:
    """Whether pages may have been fetched again whose items are there already: no, if the crawl is
    over and its summary tells of no lease that was taken from its worker."""
    try:
        summary = json.loads((folder / SUMMARY).read_bytes())
        return (summary["state"], summary["reclaimed"], summary["late"]) != ("finished", 0, 0)
    except (OSError, ValueError, TypeError, KeyError):
        return True


def merge_items(
    database: Database, folders: Sequence[Path], to: Path, *, are_alike_one: bool
) -> FileReport | None:
    """Write the items that count, in the order of their parts; None if there are no parts."""
    parts = parts_of(folders, ITEMS, JSONL)
    if not parts:
        return None
    intake = Intake(len(parts))
    listed = database.folder / "items.list"
    refused = _refused(database)
    with listed.open("w", encoding="utf-8") as file:
        file.write("part,line,page,lease\n")
        for number, part in enumerate(parts):
            for line, page, lease in _listed(part, number, intake, are_alike_one=are_alike_one):
                order = -lease if (page[:PAGE_DIGITS], lease) in refused else lease
                file.write(f"{number},{line},{page},{order}\n")
    kept = _kept(database, listed)
    with to.open("wb") as file:
        rows = _copy(parts, kept, file)
    total = database.run("SELECT count(*) FROM listed")[0][0]
    intake.duplicates = total - rows
    return FileReport(
        ITEMS_FILE, intake.parts, rows, intake.duplicates, intake.torn, examples=intake.examples
    )


def convert(database: Database, lines: Path, merged: FileReport, format_: str) -> FileReport:
    """Write merged items in another format: their fields are the columns, each of the type that all
    its values have, and JSON where they have none in common. Where they are too many, or differ in
    upper and lower case alone, the item is one column of JSON."""
    source = _objects(database, [lines])
    types = _types(database, source)
    to = lines.with_name(f"{ITEMS}.{format_}")
    if types:
        cells = ", ".join(
            cell_as_written(one, kind if isinstance(kind, str) else "", format_)
            for one, kind in types.items()
        )
        fields = _fields(types, source)
    else:
        cells, fields = cell_as_written("json", JSON, format_), source
    found = database.run(
        f"COPY (SELECT {cells} FROM {fields}) TO {literal(str(to))} ({copy_options(format_)})"
    )
    rows = found[0][0]
    return replace(merged, file=to.name, rows=rows, malformed=merged.rows - rows)


def load_items(database: Database, folders: Sequence[Path]) -> None:
    """Make the table of items that count, from their parts, or from merged files (JSON, else
    Parquet) where there are none: a column for each field, or one of JSON (`convert`). The table of
    what was refused must be there."""
    merged = database.folder / ITEMS_FILE
    are_alike_one = any(map(may_repeat, folders))
    if merge_items(database, folders, merged, are_alike_one=are_alike_one) is not None:
        database.run("DROP TABLE listed; DROP TABLE kept")
        lines = [merged]
    else:
        lines = _merged(folders, JSONL)
    if lines:
        source = _objects(database, lines)
        types = _types(database, source)
        database.run(f"CREATE TABLE {ITEMS} AS FROM {_fields(types, source) if types else source}")
    elif files := _merged(folders, PARQUET):
        links = ", ".join(literal(database.link(file)) for file in files)
        database.run(f"CREATE TABLE {ITEMS} AS FROM read_parquet([{links}], union_by_name = true)")
    else:
        database.run(EMPTY_TABLE)


def _merged(folders: Sequence[Path], suffix: str) -> list[Path]:
    return [file for folder in folders if (file := folder / f"{ITEMS}.{suffix}").is_file()]


def _objects(database: Database, lines: Sequence[Path]) -> str:
    """The items in these files, each as JSON, for a FROM."""
    files = ", ".join(literal(database.link(file)) for file in lines)
    return (
        f"(FROM read_ndjson_objects([{files}], ignore_errors = true, "
        f"maximum_object_size = {MOST_LINE_BYTES}) WHERE json IS NOT NULL)"
    )


def _fields(types: dict[str, Any], source: str) -> str:
    """Those items with their fields as columns."""
    return f"(SELECT unnest(from_json(json, {literal(json.dumps(types))})) FROM {source})"


def _types(database: Database, source: str) -> dict[str, Any] | None:
    """Field → type that all its values have, if items have fields that can be columns."""
    found = database.run(f"SELECT json_group_structure(json) FROM {source}")[0][0]
    types = json.loads((found or "null").replace('"NULL"', f'"{TEXT}"'))
    if not isinstance(types, dict) or not 0 < len(types) <= MOST_COLUMNS:
        return None
    return types if len({one.lower() for one in types}) == len(types) and all(types) else None


def _refused(database: Database) -> set[tuple[str, int]]:
    """Page and lease of those that were refused; their table must be there."""
    found = database.run(f"SELECT url, lease FROM {REFUSED.name}")
    return {(page_hash(url), lease) for url, lease in found}


def _listed(
    part: Path, number: int, intake: Intake, *, are_alike_one: bool
) -> Iterator[tuple[int, str, int]]:
    """Of each whole item: its line, what its request is known by, and its lease."""
    leases = _leases_of(part)
    with part.open("rb") as file:
        for line, text in enumerate(file, 1):
            lease, page = next(leases, (0, ""))
            if not _is_whole(text):
                intake.leave_out(part, line, torn=True)
                continue
            if not page:
                page = _alike(text) if are_alike_one else f"{number}-{line}"
            yield line, page, lease


def _leases_of(part: Path) -> Iterator[tuple[int, str]]:
    try:
        file = part.with_suffix(LEASES_SUFFIX).open("rb")
    except OSError:
        return
    with file:
        for line in file:
            lease, _, page = line.strip().partition(b" ")
            is_whole = line.endswith(b"\n") and lease.isdigit() and page.isalnum()
            yield (int(lease), page.decode()) if is_whole else (0, "")


def _is_whole(text: bytes) -> bool:
    try:
        json.loads(text if text.endswith(b"\n") else b"")
    except (ValueError, RecursionError):
        return False
    return True


def _alike(text: bytes) -> str:
    return "=" + blake2b(text, digest_size=16).hexdigest()


def _kept(database: Database, listed: Path) -> Iterator[tuple[int, int]]:
    """Part and line of each item that counts. Those that are known by their text alone are one."""
    database.run(
        f"CREATE TABLE listed AS FROM read_csv({literal(database.link(listed))}, "
        f"columns = {_COLUMNS}, auto_detect = false, header = true)"
    )
    database.run(
        "CREATE TABLE kept AS SELECT part, line FROM listed JOIN "
        "(SELECT page, max(lease) AS lease FROM listed GROUP BY page) USING (page, lease) "
        "WHERE NOT starts_with(page, '=') "
        "UNION ALL SELECT min(row(part, line))[1], min(row(part, line))[2] FROM listed "
        "WHERE starts_with(page, '=') GROUP BY page ORDER BY 1, 2"
    )
    cursor = database.connection.execute("FROM kept")
    while found := cursor.fetchmany(10_000):
        yield from found


def _copy(parts: Sequence[Path], kept: Iterable[tuple[int, int]], to: IO[bytes]) -> int:
    """Copy those lines; they come in the order of the parts."""
    rows = 0
    lines: Iterator[tuple[int, bytes]] = iter(())
    open_part = -1
    for part, wanted in kept:
        if part != open_part:
            lines, open_part = _numbered(parts[part]), part
        for number, text in lines:
            if number == wanted:
                to.write(text)
                rows += 1
                break
    return rows


def _numbered(part: Path) -> Iterator[tuple[int, bytes]]:
    with part.open("rb") as file:
        yield from enumerate(file, 1)
