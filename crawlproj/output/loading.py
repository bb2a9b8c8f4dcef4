"""Parts of any number of folders → one table of each kind, in which each thing is once.

Which row counts when a page was fetched twice: the one of its last lease, for only the holder of
that could settle it. The frontier counts leases, so the clocks of workers decide nothing. Rows that
name no lease go by their times. Where a crawl speculates, two workers may hold one page: what the
second has noted as refused does not count beside the other's rows.

Parts of one kind in two formats hold the same rows, and what is damaged in one may be whole in the
other, so both are read. Where they differ the JSON is right: a cell of a CSV that looks like a
formula has an apostrophe before it.

DuckDB reads the parts, fast. What it stumbles over, `parts.py` reads once more with care.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from crawlproj.output import parts as part_files
from crawlproj.output.database import Database
from crawlproj.output.kinds import CSV, FAILURES, FORGOTTEN, LINKS, PAGES, REFUSED, TEXT, Kind
from crawlproj.output.merge_report import Intake
from crawlproj.output.ordering import create_in_order
from crawlproj.output.sql import (
    cell_as_read,
    csv_reader,
    json_reader,
    name,
    names,
    type_as_read,
)
from crawlproj.output.zstd_blocks import is_cut

ZSTD = ".zst"
LEASE = "lease"
"""The column that counts leases, of kinds that have it."""
IS_REFUSED = "_refused"
"""A column of rows while they are chosen among."""
_FAILED = "failed_leases"
"""A table, while pages are loaded."""


@dataclass
class Loaded:
    """A kind whose rows are in the table of its name."""

    kind: Kind
    columns: dict[str, str]
    """With those that parts had beside ours."""
    intakes: dict[str, Intake] = field(default_factory=dict)
    rows: int = 0
    recovered: int = 0
    forgotten: int = 0


def load(
    database: Database,
    kind: Kind,
    folders: Sequence[Path],
    *,
    order: str = "",
    or_merged: bool = False,
) -> Loaded:
    """Make the table of a kind from its parts, in that order (SQL), or from merged files where
    there are no parts and these will do. Rows of failures, links, attributes and what is extracted
    are compared with the table of pages, failures with that of what was forgotten, which must be
    there; all kinds with that of what was refused, if it is."""
    database.run("SET preserve_insertion_order = false")  # faster; an ORDER BY is kept to
    # Long texts take DuckDB ten times as long to compress as all the rest does.
    compression = "uncompressed" if kind.is_wide else "auto"
    database.run(f"SET force_compression = '{compression}'")
    if kind is PAGES:
        _note_failed(database, folders, or_merged=or_merged)
    loading = _Loading.of(database, kind, folders, or_merged=or_merged)
    loading.read()
    loaded = Loaded(kind, loading.columns, loading.intakes)
    loading.pass_over_refused()
    if kind.is_wide:
        loading.pass_over_superseded()
    loading.choose()
    if kind is PAGES:
        loading.pass_over_failed()
    columns, chosen = names(loading.columns), "SELECT best FROM chosen"
    if order and kind.is_wide:
        create_in_order(database, kind.name, columns, order, chosen=chosen, time=kind.time)
    else:
        kept = f"SELECT {columns} FROM read WHERE rowid IN ({chosen})"
        if kind is FAILURES:
            kept = _without_mended(database, kept, loaded)
        database.run(f"CREATE TABLE {kind.name} AS {kept} {order and f'ORDER BY {order}'}")
    database.run("DROP TABLE read; DROP TABLE chosen; SET preserve_insertion_order = true")
    loaded.rows = database.run(f"SELECT count(*) FROM {kind.name}")[0][0]
    return loaded


class _Loading:
    """One kind on its way from its parts to its table: first all rows (`read`), then the number of
    the best of each (`chosen`)."""

    def __init__(
        self,
        database: Database,
        kind: Kind,
        parts: dict[str, list[Path]],
        chosen_types: dict[str, str],
    ) -> None:
        self._database = database
        self._run = database.run
        self._kind = kind
        self._parts = parts
        self.intakes = {suffix: Intake(len(parts)) for suffix, parts in self._parts.items()}
        self.columns = {**kind.columns, **chosen_types}
        self._has_refused = False
        self._own_columns: dict[Path, tuple[str, ...]] = {}
        self._part_of: dict[str, Path] = {}

    @classmethod
    def of(
        cls, database: Database, kind: Kind, folders: Sequence[Path], *, or_merged: bool
    ) -> _Loading:
        """One that reads what is in these folders."""
        parts = part_files.sources_of(folders, kind, or_merged=or_merged)
        return cls(database, kind, parts, part_files.chosen_types(folders, kind))

    def read(self) -> None:
        for suffix, parts in self._parts.items():
            for part in parts:
                self._note_columns(part, suffix)
        columns = ", ".join(f"{name(one)} {kind}" for one, kind in self.columns.items())
        self._run(f"CREATE TABLE read ({columns}, _part VARCHAR, _format TINYINT)")
        for suffix, parts in self._parts.items():
            self._read_parts(suffix, parts)

    def _note_columns(self, part: Path, suffix: str) -> None:
        """Columns of a part that are not known come after ours, as text."""
        if suffix not in part_files.CAREFUL:
            return
        found = part_files.columns_of(part, suffix, self._kind)
        if found is not None:
            self._own_columns[part] = found
        known = {one.lower() for one in self.columns}
        self.columns |= {one: TEXT for one in found or () if one.lower() not in known}

    def _read_parts(self, suffix: str, parts: list[Path]) -> None:
        alike: dict[tuple[str, ...], list[str]] = {}
        for part in parts:
            alike.setdefault(self._columns_in(part, suffix), []).append(self._source(part, suffix))
        for columns, sources in alike.items():
            self._insert(suffix, columns, sources)
        if alike:
            damaged = self._rejected() | self._unknown()
            if suffix not in part_files.CAREFUL:
                self._count_cut(suffix, {self._part_of[source] for source in damaged})
            for source in sorted(damaged):
                self._read_with_care(source, suffix)

    def _count_cut(self, suffix: str, counted: set[Path]) -> None:
        """Count packed parts that were cut and of which nothing is: what was in the block that is
        not whole, nobody knows."""
        for part in self._parts[suffix]:
            if part.suffix == ZSTD and part not in counted and is_cut(part):
                self.intakes[suffix].leave_out_end(part)

    def _columns_in(self, part: Path, suffix: str) -> tuple[str, ...]:
        """In the order of the part, which matters to a CSV alone."""
        if suffix != CSV:
            return tuple(self.columns)
        return self._own_columns.get(part, tuple(self._kind.columns))

    def _source(self, part: Path, suffix: str) -> str:
        """The part itself, or a copy of it that ends with a whole line and stays as it is."""
        source = part
        if suffix in part_files.CAREFUL and not part_files.is_settled(part):
            source = self._name_copy()
            part_files.copy_whole_lines(part, source, self._leave_out(part, suffix))
        link = self._database.link(source)
        self._part_of[link] = part
        return link

    def _leave_out(self, part: Path, suffix: str) -> part_files.LeaveOut:
        return partial(self.intakes[suffix].leave_out, part)

    def _name_copy(self) -> Path:
        return self._database.folder / f"{self._kind.name}-{len(self._part_of)}.copy"

    def _insert(self, suffix: str, columns: tuple[str, ...], sources: list[str]) -> None:
        types = {one: type_as_read(self.columns.get(one, TEXT), suffix) for one in columns}
        is_ours = self._kind.item is not None
        cells = [
            cell_as_read(one, kind, suffix, is_text_never_null=is_ours)
            if one in types
            else ("''" if kind == TEXT and is_ours else "NULL")
            for one, kind in self.columns.items()
        ]
        reader = csv_reader if suffix == CSV else json_reader
        number = list(self._parts).index(suffix)
        self._run(
            f"INSERT INTO read SELECT {', '.join(cells)}, _part, {number} "
            f"FROM {reader(sources, types)}"
        )

    def _rejected(self) -> set[str]:
        """The sources with rows of another shape than they should have."""
        if not self._run("FROM duckdb_tables() WHERE table_name = 'reject_errors'"):
            return set()
        found = self._run(
            "SELECT DISTINCT file_path "
            "FROM reject_errors JOIN reject_scans USING (scan_id, file_id)"
        )
        self._run("DROP TABLE reject_errors; DROP TABLE reject_scans")
        return {source for (source,) in found}

    def _unknown(self) -> set[str]:
        """The sources with rows of which it is not known what they are of, or when."""
        found = self._run(f"SELECT DISTINCT _part FROM read WHERE {self._is_unknown}")
        return {source for (source,) in found}

    @property
    def _is_unknown(self) -> str:
        columns = (self._kind.time, *self._kind.key)
        texts = [f"coalesce({name(one)}::VARCHAR, '')" for one in columns]
        return " OR ".join(f"{text} = '' OR contains({text}, chr(0))" for text in texts)

    def _read_with_care(self, source: str, suffix: str) -> None:
        intake = self.intakes[suffix]
        is_careful = suffix in part_files.CAREFUL
        again = source
        if is_careful:
            self._run("DELETE FROM read WHERE _part = ?", [source])
            part, copy = self._part_of[source], self._name_copy()
            leave_out = self._leave_out(part, suffix)
            rows = part_files.copy_whole_rows(self._kind, suffix, Path(source), copy, leave_out)
            again = self._database.link(copy)
            self._part_of[again] = part
            self._insert(suffix, self._columns_in(part, suffix), [again])
            self._rejected()
            inserted = self._run("SELECT count(*) FROM read WHERE _part = ?", [again])[0][0]
            intake.malformed += rows - inserted
        unknown = f"FROM read WHERE _part = ? AND ({self._is_unknown})"
        count = self._run(f"SELECT count(*) {unknown}", [again])[0][0]
        self._run(f"DELETE {unknown}", [again])
        intake.malformed += count * is_careful
        intake.torn += count * (not is_careful)

    def pass_over_refused(self) -> None:
        """Rows of refused leases come last among those of their page, and failures go."""
        if self._kind is REFUSED or not self._is_any_refused():
            return
        if self._kind is FAILURES:
            self._run(
                f"DELETE FROM read USING {REFUSED.name} AS refused "
                "WHERE read.url = refused.url AND read.worker = refused.worker "
                "AND failed_at <= refused_at"
            )
        elif LEASE in self.columns:
            self._has_refused = True
            self._run(f"ALTER TABLE read ADD COLUMN {IS_REFUSED} BOOLEAN DEFAULT false")
            self._run(
                f"UPDATE read SET {IS_REFUSED} = true FROM {REFUSED.name} AS refused "
                f"WHERE read.{self._kind.key[0]} = refused.url AND read.{LEASE} = refused.{LEASE}"
            )

    def pass_over_superseded(self) -> None:
        """Rows go that are of a lease before that of their page's row: the last one has found
        nothing to write. The table of pages must be there."""
        self._run(
            f"DELETE FROM read USING {PAGES.name} AS known WHERE read.{self._kind.key[0]} = "
            f"known.url AND read.{LEASE} > 0 AND read.{LEASE} < known.{LEASE}"
        )

    def pass_over_failed(self) -> None:
        """Pages that have failed under a later lease than any of their rows are none: the worker
        that wrote the row was lost before it could settle it."""
        self._run(
            "DELETE FROM chosen WHERE best IN (SELECT read.rowid FROM read JOIN ("
            f"SELECT url, max({LEASE}) AS last FROM read GROUP BY url) USING (url) "
            f"JOIN {_FAILED} AS failed USING (url) WHERE last > 0 AND failed.{LEASE} > last)"
        )

    def _is_any_refused(self) -> bool:
        named = f"FROM duckdb_tables() WHERE table_name = '{REFUSED.name}'"
        return bool(self._run(named) and self._run(f"FROM {REFUSED.name} LIMIT 1"))

    def choose(self) -> None:
        lease = [f"coalesce({LEASE}, 0)"] if LEASE in self.columns else []
        if self._has_refused:
            lease.insert(0, f"NOT {IS_REFUSED}")
        if self._kind is PAGES:  # one that only says that nothing has changed says nothing else
            lease.insert(0, "status IS DISTINCT FROM 304")
        best = ", ".join([*lease, name(self._kind.time), "_format", f"hash({names(self.columns)})"])
        counts = ", ".join(
            f"count(*) FILTER (_format = {number}) AS n{number}"
            for number in range(len(self._parts))
        )
        self._run(
            f"CREATE TABLE chosen AS SELECT max_by(rowid, row({best})) AS best, {counts} "
            f"FROM read GROUP BY {names([*self._kind.key, *self._kind.told_apart_by])}"
        )
        for number, intake in enumerate(self.intakes.values()):
            found = self._run(f"SELECT sum(greatest(n{number} - 1, 0)) FROM chosen")
            intake.duplicates = int(found[0][0] or 0)


def _note_failed(database: Database, folders: Sequence[Path], *, or_merged: bool) -> None:
    """Make a table of the leases under which URLs were given up as pages. What became of another
    request for the same URL (a POST, a sitemap) says nothing of its page."""
    loading = _Loading.of(database, FAILURES, folders, or_merged=or_merged)
    loading.read()
    loading.pass_over_refused()
    database.run(
        f"CREATE OR REPLACE TEMP TABLE {_FAILED} AS SELECT url, max({LEASE}) AS {LEASE} FROM read "
        f"WHERE {LEASE} > 0 AND coalesce(request, '') = '' GROUP BY url"
    )
    database.run("DROP TABLE read")


def _without_mended(database: Database, kept: str, loaded: Loaded) -> str:
    """Failures but those of URLs that were fetched well under a later lease, or forgotten at that
    time or later. Rows of earlier versions name no lease, and go by their times."""
    later = "EXISTS (FROM {0} AS known WHERE known.url = failed.url AND {1})"
    has_leases = f"known.{LEASE} > 0 AND failed.{LEASE} > 0"
    by_lease = f"CASE WHEN {has_leases} THEN known.{LEASE} > failed.{LEASE} ELSE {{0}} END"
    by_time = f"known.{{0}} >= failed.{FAILURES.time}"
    good = by_lease.format(by_time.format(PAGES.time)) + " AND known.status BETWEEN 100 AND 399"
    fetched = later.format(PAGES.name, good)
    same = " AND coalesce(known.request, failed.request) = failed.request"
    forgotten = later.format(FORGOTTEN.name, by_time.format(FORGOTTEN.time) + same)
    database.run(f"CREATE TEMP TABLE failed AS {kept}")
    database.run(
        f"CREATE TEMP TABLE judged AS SELECT *, {fetched} AS _fetched, {forgotten} AS _forgotten "
        "FROM failed"
    )
    found = database.run(
        "SELECT count(*) FILTER (_fetched), count(*) FILTER (_forgotten AND NOT _fetched) "
        "FROM judged"
    )
    loaded.recovered, loaded.forgotten = found[0]
    return "SELECT * EXCLUDE (_fetched, _forgotten) FROM judged WHERE NOT (_fetched OR _forgotten)"


def flat(kind: Kind, table: str) -> str:
    """A table of links with a row for each link, made of one with a row for each page."""
    page = names([*kind.key, kind.time])
    return f"(SELECT {page}, unnest({LINKS.name}, recursive := true) FROM {table})"
