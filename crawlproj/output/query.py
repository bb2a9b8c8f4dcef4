"""A user's question to the tables of a crawl, in SQL, answered where nothing else can be reached.

The question may come from anybody (a script, a colleague, a web page that was copied from): it
reads this crawl and nothing else. `Tables.sealed` is the wall; that there is one statement, and
that it is a question, is looked at here, so that what is wrong is said in plain words.
"""

from __future__ import annotations

import difflib
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from crawlproj.errors import ConfigError, CrawlError
from crawlproj.output.database import MEMORY_MB, in_one_line
from crawlproj.output.sql import copy_options, literal
from crawlproj.output.tables import TABLES, open_tables
from crawlproj.output.whole_file import written_whole

TIMEOUT_S = 300.0
GRACE_S = 2.0
"""How long an interrupted question has to end. Inside of one function DuckDB does not look up."""
ROWS_AT_ONCE = 1000
_NO_TABLE = re.compile(r"Table with name (\S+) does not exist")
_QUESTIONS = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)


class QueryError(ConfigError):
    """A question that cannot be asked."""


class QueryLimit(CrawlError):
    """A question that takes more than it may."""


@dataclass
class Answer:
    """Names of columns, and rows, a thousand at a time."""

    columns: list[str]
    batches: Iterator[list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Query:
    """A question and what answering it may take."""

    sql: str
    timeout_s: float = TIMEOUT_S
    memory_mb: int = MEMORY_MB
    on_overdue: Callable[[str], None] | None = None
    """Called, in a thread of its own, with what to say when the question could not even be
    interrupted: nothing but the end of the process ends it then."""

    def check(self) -> None:
        """Raise QueryError if this is no question, or several."""
        try:
            statements = duckdb.extract_statements(self.sql)
        except duckdb.Error as error:
            raise QueryError(f"{in_one_line(error)}: write SELECT … FROM pages …") from None
        if len(statements) != 1 or statements[0].type not in _QUESTIONS:
            raise QueryError(
                "one question at a time, and nothing else: SELECT … FROM pages …, of the tables "
                f"{', '.join(TABLES)}"
            )

    @contextmanager
    def answer(self, folders: Sequence[Path]) -> Iterator[Answer]:
        """Ask; the rows can be read inside."""
        with self._asked(folders) as (connection, _), _plain_errors(self):
            connection.execute(self.sql)
            columns = [column[0] for column in connection.description or ()]
            yield Answer(columns, iter(lambda: connection.fetchmany(ROWS_AT_ONCE), []))

    def write_parquet(self, folders: Sequence[Path], to: Path) -> int:
        """Write the answer to a file of Parquet; returns the number of rows."""
        with self._asked(folders) as (connection, folder), _plain_errors(self):
            made = folder / "answer.parquet"
            connection.execute(f"CREATE TEMP VIEW answer AS {self.sql}")
            rows: int = connection.execute(
                f"COPY (FROM answer) TO {literal(str(made))} ({copy_options('parquet')})"
            ).fetchall()[0][0]
            _move(made, to)
        return rows

    @contextmanager
    def _asked(self, folders: Sequence[Path]) -> Iterator[tuple[duckdb.DuckDBPyConnection, Path]]:
        self.check()
        with open_tables(folders, self.memory_mb) as tables:
            tables.make_for(self.sql)
            writable = tables.folder / "written"
            writable.mkdir()
            with (
                tables.sealed(writable) as connection,
                self._limited(connection.interrupt),
            ):
                yield connection, writable

    @contextmanager
    def _limited(self, interrupt: Callable[[], None]) -> Iterator[None]:
        timers = [threading.Timer(self.timeout_s, interrupt)]
        if self.on_overdue is not None:
            wait_s = self.timeout_s + GRACE_S
            timers.append(threading.Timer(wait_s, self.on_overdue, [self.too_late]))
        for timer in timers:
            timer.daemon = True
            timer.start()
        try:
            yield
        finally:
            for timer in timers:
                timer.cancel()

    @property
    def too_late(self) -> str:
        """What to say of a question that was not answered in time."""
        return f"no answer within {self.timeout_s:g} s: ask for less, or give --timeout"


def _move(made: Path, to: Path) -> None:
    """To where it shall be, which may be another disk."""
    with written_whole(to) as unfinished:
        shutil.copyfile(made, unfinished)


@contextmanager
def _plain_errors(query: Query) -> Iterator[None]:
    try:
        yield
    except duckdb.InterruptException:
        raise QueryLimit(query.too_late) from None
    except (duckdb.OutOfMemoryException, duckdb.IOException, MemoryError) as error:
        raise QueryLimit(
            f"too much for {query.memory_mb} MB of memory and the disk for temporary files: ask "
            f"for less, or give --memory ({in_one_line(error)[:200]})"
        ) from None
    except duckdb.Error as error:
        raise QueryError(_in_plain_words(error)) from None


def _in_plain_words(error: Exception) -> str:
    text = in_one_line(error)
    if found := _NO_TABLE.search(text):
        near = difflib.get_close_matches(found[1], TABLES, 1)
        meant = f", did you mean {near[0]}? There" if near else "; there"
        return f"no table {found[1]}{meant} are {', '.join(TABLES)}"
    return text
