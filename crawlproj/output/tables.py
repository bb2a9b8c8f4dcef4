"""The tables of a crawl, to ask in SQL: pages, failures, stats, links, attributes, extracted, and
items of spiders' own classes.

    with open_tables(Path("output/site")) as tables:
        for status, count in tables.ask("SELECT status, count(*) FROM pages GROUP BY ALL"):
            ...

They are made of the parts in a folder, each URL once as in merged files, also while the crawl runs;
of merged files where there are no parts; and of merged Parquet, which needs no reading ahead, where
that is up to date. A table is made when it is first asked. Those of which the crawl has nothing are
there, and empty, with their columns. Memory is bounded; what does not fit is in a folder for
temporary files, and gone with the tables.

`ask` is for questions of ours. Those of users are answered by `sealed` tables (`query.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb

from crawlproj.output import manifest, own_items
from crawlproj.output.database import MEMORY_MB, Database, database, limits
from crawlproj.output.kinds import (
    FAILURES,
    FORGOTTEN,
    ITEMS,
    KINDS,
    LINK_COLUMNS,
    LINKS,
    PAGES,
    PARQUET,
    REFUSED,
    Kind,
)
from crawlproj.output.loading import flat, load
from crawlproj.output.parts import has_parts, sources_of
from crawlproj.output.scratch import Scratch
from crawlproj.output.sql import cast, literal, name, names

_LINKS_OF_PAGES = f"{LINKS.name}_of_pages"
TABLES = (*(kind.name for kind in KINDS), ITEMS)
# A question that names its tables by a text of its own may mean any.
_ANY_TABLE = re.compile(r"\bquery(_table)?\s*\(", re.IGNORECASE)


class Tables:
    """A crawl's tables, from the folders of one machine or of several."""

    def __init__(self, folders: Sequence[Path], rows: Database, memory_mb: int) -> None:
        self._folders = list(folders)
        self._rows = rows
        self._memory_mb = memory_mb
        self._made: set[str] = set()
        self._readable: list[str] = []
        self._shown: set[str] = set()
        self.folder = rows.folder
        """For temporary files, and gone with the tables."""

    def ask(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of an answer, all at once: ask for as many as memory has room for."""
        self.make_for(sql)
        return self._rows.run(sql, values)

    def each(self, sql: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of an answer of any length, one after the other. One such question at a time."""
        self.make_for(sql)
        yield from self._rows.each(sql, values)

    def links_by_page(self) -> Iterator[tuple[str, list[dict[str, str | None]]]]:
        """Each page that has links, and these, one page after the other: of merged Parquet, which
        has a row for each link, in the order in which it was written."""
        self._make(LINKS)
        if LINKS.name not in self._shown:
            rows = self._rows.each(f"SELECT source, to_json(links)::VARCHAR FROM {_LINKS_OF_PAGES}")
            yield from ((source, json.loads(links)) for source, links in rows if links)
            return
        links = self._rows.each(f"SELECT source, {names(LINK_COLUMNS)} FROM {LINKS.name}")
        for source, found in groupby(links, itemgetter(0)):
            yield source, [dict(zip(LINK_COLUMNS, link, strict=True)) for _, *link in found]

    def progress(self) -> float:
        """How much of the statement under way is done, from 0 to 1. For any thread."""
        return self._rows.progress()

    def make_for(self, sql: str) -> None:
        """Have the tables ready that a question names."""
        is_any = bool(_ANY_TABLE.search(sql))
        named = {one for one in TABLES if is_any or re.search(rf"\b{one}\b", sql, re.IGNORECASE)}
        for kind in KINDS:
            if kind.name in named:
                self._make(kind)
        if ITEMS in named and ITEMS not in self._made:
            self._made.add(ITEMS)
            self._load_refused()
            own_items.load_items(self._rows, self._folders)

    def _load_refused(self) -> None:
        if REFUSED.name not in self._made:
            self._made.add(REFUSED.name)
            load(self._rows, REFUSED, self._folders)

    def _make(self, kind: Kind) -> None:
        if kind.name in self._made:
            return
        self._made.add(kind.name)
        ready = self._ready_file(kind)
        if ready is not None:
            self._show(kind, ready)
            return
        self._load_refused()
        if kind is FAILURES or kind.is_wide:
            self._make(PAGES)
        if kind is FAILURES:
            load(self._rows, FORGOTTEN, self._folders)
        load(self._rows, kind, self._folders, or_merged=True)
        if kind.table:
            self._rows.run(
                f"ALTER TABLE {kind.name} RENAME TO {_LINKS_OF_PAGES}; "
                f"CREATE VIEW {kind.name} AS SELECT {', '.join(map(name, kind.table))} "
                f"FROM {flat(kind, _LINKS_OF_PAGES)}"
            )

    def _ready_file(self, kind: Kind) -> Path | None:
        """Merged Parquet, if it holds what the parts do now, or, where there are none, what other
        merged files do."""
        if len(self._folders) != 1:
            return None
        file = self._folders[0] / f"{kind.name}.{PARQUET}"
        if not file.is_file():
            return None
        if has_parts(self._folders, kind):
            return file if manifest.is_up_to_date(self._folders[0], file) else None
        others = sources_of(self._folders, kind, or_merged=True)
        return file if manifest.is_of_last_merge(file) or not any(others.values()) else None

    def _show(self, kind: Kind, file: Path) -> None:
        link = self._rows.link(file)
        self._readable.append(link)
        self._shown.add(kind.name)
        described = f"(DESCRIBE FROM read_parquet({literal(link)}))"
        found = self._rows.run(f"SELECT column_name FROM {described}")
        there = {column for (column,) in found}
        columns = {**(kind.table or kind.columns)}
        cells = [cast(one, type_, is_there=one in there) for one, type_ in columns.items()]
        cells += [name(one) for (one,) in found if one not in columns]
        self._rows.run(
            f"CREATE VIEW {kind.name} AS "
            f"SELECT {', '.join(cells)} FROM read_parquet({literal(link)})"
        )

    @contextmanager
    def sealed(self, writable: Path) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for questions of others: it reads these tables and no other file, changes
        nothing, has no network, loads nothing, and its settings are locked. What it is told to
        write, by us, it may write to this folder alone. The tables cannot be added to any more."""
        for kind in KINDS:
            if kind.name not in self._made:
                self._make_empty(kind)
        if ITEMS not in self._made:
            self._rows.run(own_items.EMPTY_TABLE)
        self._rows.connection.close()
        connection = duckdb.connect(
            str(self._rows.path), read_only=True, config=limits(self._rows.folder, self._memory_mb)
        )
        try:
            for setting in (
                "TimeZone = 'UTC'",
                "python_enable_replacements = false",
                f"allowed_paths = [{', '.join(map(literal, self._readable))}]",
                f"allowed_directories = [{literal(str(writable))}]",
                "enable_external_access = false",
                "lock_configuration = true",
            ):
                connection.execute(f"SET {setting}")
            yield connection
        finally:
            connection.close()

    def _make_empty(self, kind: Kind) -> None:
        columns = (kind.table or kind.columns).items()
        listed = ", ".join(f"{name(one)} {type_}" for one, type_ in columns)
        self._rows.run(f"CREATE TABLE {kind.name} ({listed})")


@contextmanager
def open_tables(folders: Path | Sequence[Path], memory_mb: int = MEMORY_MB) -> Iterator[Tables]:
    """The tables of the crawl in that folder, or in those of several machines."""
    sources = [folders] if isinstance(folders, Path) else folders
    with (
        closing(Scratch("tables")) as scratch,
        database(scratch.path, memory_mb) as rows,
    ):
        yield Tables(sources, rows, memory_mb)
