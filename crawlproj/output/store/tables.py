"""The tables of a store, and what is written to them and read from them, in the SQL that SQLite and
PostgreSQL share.

    pages        a row a URL: the columns of pages-*.csv, and the crawl that fetched it last, with
                 its epoch
    contents     a body, packed by zstd, under its SHA-256: once, however many pages have it
    crawl_store  the version of these tables, which also tells that they are ours

All that one batch writes is one transaction, and can be repeated without harm.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from crawlproj.errors import ConfigError, CrawlError
from crawlproj.items import PAGE_COLUMNS, PageItem, utc_timestamp

if TYPE_CHECKING:
    from backports import zstd
elif sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

VERSION = 1
"""To be raised when tables change their meaning; columns may be added without."""

PAGES, CONTENTS, MARK = "pages", "contents", "crawl_store"
COLUMNS = (*PAGE_COLUMNS, "crawl", "epoch")
ENCODING = "zstd"
LEVEL = 3
"""Of zstd: as small as zlib's 6 on pages of documentation, in a seventh of its time."""


class StoredPage(NamedTuple):
    """A page on its way into the store."""

    page: PageItem
    body: bytes
    crawl: str
    epoch: str

    @property
    def values(self) -> tuple[Any, ...]:
        """As the columns have them: text without what PostgreSQL refuses in it."""
        return (
            *(_plain(getattr(self.page, name)) for name in PAGE_COLUMNS),
            self.crawl,
            self.epoch,
        )


class StoreAway(CrawlError):
    """The database cannot be written to now, and may be later. Nothing was committed, or what was
    can be written again."""


class RowRefused(CrawlError):
    """The database will never take one of these rows as it is."""


class Database(ABC):
    """One connection, for one thread at a time. Subclasses speak to a server."""

    mark = "?"
    """Stands for a value in SQL."""
    driver_errors: tuple[type[Exception], ...] = ()
    types = {"str": "TEXT", "int": "BIGINT", "float": "DOUBLE PRECISION", "bytes": "BLOB"}

    def __init__(self) -> None:
        self._connection: Any = None

    @abstractmethod
    def connect(self, *, may_create: bool) -> Any:
        """A connection of the DB-API on which every statement is a transaction of its own, unless
        one is begun."""

    @abstractmethod
    def is_refusal(self, error: Exception) -> bool:
        """Whether the driver's error is about a row, and not about the moment."""

    @abstractmethod
    def begin(self, *, to_create: bool) -> None:
        """Begin a transaction; `to_create`: nobody else creates tables until it has ended."""

    @abstractmethod
    def tables(self) -> set[str]:
        """Those of our tables' names that there are."""

    @abstractmethod
    def columns(self) -> set[str]:
        """The columns that the table of pages has."""

    # Opening

    def open(self) -> None:
        """Connect, and have the tables ready; raises ConfigError for a database that is not to be
        written to, StoreAway for one that cannot be reached."""
        self.close()
        with self.errors():
            self._connection = self.connect(may_create=True)
            with self._transaction(to_create=True):
                self._prepare()

    def open_to_read(self) -> None:
        """The same of one that must be there already."""
        self.close()
        with self.errors():
            self._connection = self.connect(may_create=False)
            if MARK not in self.tables():
                raise ConfigError("no crawl has stored pages there")
            self._check_version()

    def close(self) -> None:
        """Leave the server, however it is."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*self.driver_errors):
                connection.close()

    def _prepare(self) -> None:
        found = self.tables()
        if MARK not in found:
            if found:
                raise ConfigError(
                    f"there is a table {sorted(found)[0]} that no crawl has made; give a database "
                    "of its own"
                )
            self._create()
        self._check_version()
        for column in [name for name in COLUMNS if name not in self.columns()]:
            self.execute(f"ALTER TABLE {PAGES} ADD COLUMN {column} {self._type_of(column)}")

    def _create(self) -> None:
        columns = ", ".join(f"{name} {self._type_of(name)}" for name in COLUMNS)
        self.execute(f"CREATE TABLE {PAGES} ({columns}, PRIMARY KEY (url))")
        self.execute(
            f"CREATE TABLE {CONTENTS} (hash TEXT PRIMARY KEY, size BIGINT NOT NULL, "
            f"encoding TEXT NOT NULL, body {self.types['bytes']} NOT NULL)"
        )
        self.execute(f"CREATE TABLE {MARK} (version INTEGER NOT NULL)")
        self.execute(f"INSERT INTO {MARK} VALUES ({VERSION})")

    def _check_version(self) -> None:
        versions = [row[0] for row in self.execute(f"SELECT version FROM {MARK}").fetchall()]
        if versions != [VERSION]:
            found = ", ".join(map(str, versions[:3])) or "none"
            raise ConfigError(
                f"its tables are of version {found}, and this crawler writes {VERSION}; use the "
                "crawler that made them, or another database"
            )

    def _type_of(self, column: str) -> str:
        return self.types[_KINDS.get(column, "str")]

    # Writing

    def write(self, pages: Sequence[StoredPage]) -> None:
        """Have all these committed, each in the place of what was there of its URL, unless that is
        newer."""
        # In one order everywhere, so that workers never wait for each other in a circle.
        latest = {one.page.url: one for one in pages}
        ordered = [latest[url] for url in sorted(latest)]
        with self.errors():
            if self._connection is None:
                self.open()
            with self._transaction():
                self._write_contents(ordered)
                self.execute_many(_upsert(self.mark), [one.values for one in ordered])

    def _write_contents(self, pages: Collection[StoredPage]) -> None:
        bodies = {one.page.content_hash: one.body for one in pages if one.body}
        new = sorted(bodies.keys() - self._known(list(bodies)))
        rows = [
            (name, len(bodies[name]), ENCODING, zstd.compress(bodies[name], LEVEL)) for name in new
        ]
        if rows:
            marks = ", ".join([self.mark] * 4)
            self.execute_many(
                f"INSERT INTO {CONTENTS} (hash, size, encoding, body) VALUES ({marks}) "
                "ON CONFLICT (hash) DO NOTHING",
                rows,
            )

    def _known(self, hashes: list[str]) -> set[str]:
        if not hashes:
            return set()
        marks = ", ".join([self.mark] * len(hashes))
        found = self.execute(f"SELECT hash FROM {CONTENTS} WHERE hash IN ({marks})", hashes)
        return {row[0] for row in found.fetchall()}

    # Reading

    def page(self, url: str) -> dict[str, Any] | None:
        """The row of a URL; who reads adds no column that a store of before lacks."""
        with self.errors():
            there = self.columns()
            names = ", ".join(name if name in there else f"NULL AS {name}" for name in COLUMNS)
            query = f"SELECT {names} FROM {PAGES} WHERE url = {self.mark}"
            row = self.execute(query, [url]).fetchone()
        return None if row is None else dict(zip(COLUMNS, map(_as_written, row), strict=True))

    def body(self, content_hash: str) -> bytes | None:
        """What is stored under a hash, unpacked."""
        query = f"SELECT body FROM {CONTENTS} WHERE hash = {self.mark}"
        with self.errors():
            row = self.execute(query, [content_hash]).fetchone()
        return None if row is None else zstd.decompress(bytes(row[0]))

    def totals(self) -> dict[str, int]:
        """Pages, contents, and their bytes unpacked and packed."""
        query = (
            f"SELECT (SELECT count(*) FROM {PAGES}), count(*), coalesce(sum(size), 0), "
            f"coalesce(sum(length(body)), 0) FROM {CONTENTS}"
        )
        with self.errors():
            row = self.execute(query).fetchone()
        names = ("pages", "contents", "bytes", "packed_bytes")
        return dict(zip(names, map(int, row), strict=True))

    # SQL

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raises StoreAway or RowRefused for what the driver raises. After the first, and after a
        ConfigError, the next writing connects anew, and has the tables made where they are no
        longer there."""
        try:
            yield
        except ConfigError:
            self.close()
            raise
        except self.driver_errors as error:
            if self.is_refusal(error):
                raise RowRefused(str(error)) from error
            self.close()
            raise StoreAway(str(error)) from error

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """One statement; returns its cursor."""
        return self._connection.execute(sql, values)

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """One statement for each row."""
        self._connection.cursor().executemany(sql, rows)

    @contextmanager
    def _transaction(self, *, to_create: bool = False) -> Iterator[None]:
        self.begin(to_create=to_create)
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        """A connection on which that fails is of no use any more: the next writing opens one."""
        try:
            self.execute("ROLLBACK")
        except self.driver_errors:
            self.close()


_KINDS: dict[str, str] = {one.name: str(one.type) for one in fields(PageItem)}


NOT_OLDER = (
    f"{PAGES}.crawl <> excluded.crawl OR CASE WHEN {PAGES}.epoch = excluded.epoch "
    f"THEN coalesce(excluded.lease >= {PAGES}.lease, TRUE) "
    f"ELSE coalesce(excluded.fetched_at >= {PAGES}.fetched_at, TRUE) END"
)
"""A worker that slept and lost its lease must not undo what the next holder wrote, whatever its
clock says. Leases of one URL are counted by one shard, but anew in a crawl that is begun anew: of
those pages only times tell."""


def _upsert(mark: str) -> str:
    names, marks = ", ".join(COLUMNS), ", ".join([mark] * len(COLUMNS))
    changed = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS if name != "url")
    return (
        f"INSERT INTO {PAGES} ({names}) VALUES ({marks}) "
        f"ON CONFLICT (url) DO UPDATE SET {changed} WHERE {NOT_OLDER}"
    )


def _as_written(value: Any) -> Any:
    return utc_timestamp(value.timestamp()) if isinstance(value, datetime) else value


def _plain(value: Any) -> Any:
    if not isinstance(value, str) or (value.isascii() and "\0" not in value):
        return value
    return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
