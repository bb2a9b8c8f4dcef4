"""A database of a crawl's rows: DuckDB, in a file of ours, within bounds.

It takes as much memory as it is allowed to, and room on the disk for the rest. This module imports
DuckDB, so only commands may import it: workers have no use for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from crawlproj.errors import CrawlError
from crawlproj.output.scratch import Scratch

MEMORY_MB = 512
"""What DuckDB may take; the process has some 100 MB more."""
LEAST_MEMORY_MB = 100
ROWS_AT_ONCE = 1000
THREADS = min(4, os.cpu_count() or 1)


class DatabaseError(CrawlError):
    """DuckDB could not do what it was asked for."""


class Database:
    """Tables of a crawl's rows. `folder` holds its file, and is the caller's to remove."""

    def __init__(self, folder: Path, memory_mb: int = MEMORY_MB) -> None:
        self.folder = folder
        self.memory_mb = max(LEAST_MEMORY_MB, memory_mb)
        self.path = folder / "rows.duckdb"
        try:
            self.connection = duckdb.connect(str(self.path), config=limits(folder, memory_mb))
        except duckdb.Error as error:
            raise DatabaseError(f"{folder} cannot be written to: {in_one_line(error)}") from None
        self.run("SET TimeZone = 'UTC'")
        self._links = Scratch("parts")
        self._linked = 0

    def close(self) -> None:
        """Close the file, and forget the names."""
        self.connection.close()
        self._links.close()

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute statements of ours; returns the rows of the last one."""
        try:
            return self.connection.execute(sql, list(values)).fetchall()
        except duckdb.Error as error:
            raise DatabaseError(in_one_line(error)) from None

    def each(self, sql: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of an answer of any length, one after the other. One such question at a time."""
        try:
            cursor = self.connection.execute(sql, list(values))
            while batch := cursor.fetchmany(ROWS_AT_ONCE):
                yield from batch
        except duckdb.Error as error:
            raise DatabaseError(in_one_line(error)) from None

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """For a COPY of wide rows: several threads keep 122,880 rows each, to write in order."""
        self.run("SET threads = 1")
        try:
            yield
        finally:
            self.run(f"SET threads = {THREADS}")

    def progress(self) -> float:
        """How much of the statement under way is done, from 0 to 1. For any thread."""
        return min(1.0, max(0.0, self.connection.query_progress() / 100))

    def link(self, path: Path) -> str:
        """Another name of a file: its own may hold characters that are patterns to DuckDB."""
        self._linked += 1
        link = self._links.path / f"{self._linked}{''.join(path.suffixes[-2:])}"
        link.symlink_to(path.resolve())
        return str(link)


def limits(folder: Path, memory_mb: int) -> dict[str, str | bool | int | float | list[str]]:
    """Settings that bound what a connection takes of the machine, and where from."""
    return {
        "memory_limit": f"{max(LEAST_MEMORY_MB, memory_mb)}MB",
        "threads": THREADS,
        "temp_directory": str(folder / "spilled"),
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }


@contextmanager
def database(folder: Path, memory_mb: int = MEMORY_MB) -> Iterator[Database]:
    """A database in that folder, closed at the end."""
    made = Database(folder, memory_mb)
    try:
        yield made
    finally:
        made.close()


def in_one_line(error: Exception) -> str:
    """What DuckDB says, without the picture of the place."""
    text = str(error).split("\n\nLINE ", maxsplit=1)[0]
    return " ".join(text.split())
