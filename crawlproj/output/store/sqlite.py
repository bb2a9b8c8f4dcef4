"""A store in a file of SQLite, which several workers of one machine can share."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from crawlproj.errors import ConfigError
from crawlproj.output.store.tables import CONTENTS, MARK, PAGES, Database

BUSY_S = 10.0
"""How long a worker waits for another that writes, before it says that it waits."""


REFUSALS = (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.InterfaceError, OverflowError)
"""The last: a number beyond 64 bits."""


_OUR_TABLES = "SELECT name FROM sqlite_master WHERE name IN (?, ?, ?)"
_NAMES = [PAGES, CONTENTS, MARK]


class SqliteDatabase(Database):
    """A file; made where there is none, in a folder that is there."""

    driver_errors = (sqlite3.Error, OverflowError)

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def connect(self, *, may_create: bool) -> sqlite3.Connection:
        if not self._path.parent.is_dir():
            raise ConfigError(f"there is no folder {self._path.parent}; make it first")
        if not (may_create or self._path.exists()):
            raise ConfigError("there is no such file")
        # Opened by one thread and used by another, never by two at a time.
        connection = sqlite3.connect(
            self._path, BUSY_S, isolation_level=None, check_same_thread=False
        )
        try:
            there = {row[0] for row in connection.execute(_OUR_TABLES, _NAMES)}
            if may_create and (not there or MARK in there):  # else it is not ours to change
                # Readers never wait for writers; a commit is on disk, whatever becomes of the
                # machine.
                _write_ahead(connection)
                connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    def is_refusal(self, error: Exception) -> bool:
        # The class of this one, ProgrammingError in most Pythons, also tells of a closed file.
        return isinstance(error, REFUSALS) or str(error).startswith("Error binding parameter")

    def begin(self, *, to_create: bool) -> None:
        # A transaction that reads before it writes could find that another has written meanwhile.
        self.execute("BEGIN IMMEDIATE")

    def tables(self) -> set[str]:
        return {row[0] for row in self.execute(_OUR_TABLES, _NAMES)}

    def columns(self) -> set[str]:
        return {row[1] for row in self.execute(f"PRAGMA table_info({PAGES})")}


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Have changes written to a log first. Of two that ask for it at the same time, SQLite refuses
    one at once, whatever its timeout says, so that one asks again."""
    ends_at_s = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > ends_at_s:
                raise
            time.sleep(0.01)
        else:
            return
