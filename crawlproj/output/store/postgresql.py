"""A store in PostgreSQL, which workers of any number of machines can share."""

from __future__ import annotations

from typing import Any

from crawlproj.errors import ConfigError
from crawlproj.output.store.tables import CONTENTS, MARK, PAGES, Database

try:
    import psycopg
except ImportError:
    raise ConfigError(
        "PostgreSQL is spoken to by psycopg: pip install 'crawlproj[postgres]'"
    ) from None

CONNECTION = {
    "connect_timeout": 10,
    # A server that has gone without a word is noticed, and not waited for until the morning.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "crawlproj",
}
"""What an address does not say for itself."""

CREATION_LOCK = 0x63726177
"""Number of the lock under which tables are made: any that others do not take."""

REFUSED_STATES = ("22", "23", "54", "42804", "42846")
"""Beginnings of SQLSTATE: data that is wrong, that breaks a rule, that is too large, or that is of
a type which its column does not take."""


class PostgresDatabase(Database):
    """A server, by an address as libpq reads it; the tables are in the schema that is current."""

    mark = "%s"
    driver_errors = (psycopg.Error,)
    types = {**Database.types, "bytes": "BYTEA", "time": "TIMESTAMPTZ"}

    def __init__(self, address: str) -> None:
        super().__init__()
        try:
            self._parameters: dict[str, Any] = {
                **CONNECTION,
                **psycopg.conninfo.conninfo_to_dict(address),
            }
        except psycopg.Error:
            # Not what it says: that may quote a piece of the password.
            raise ConfigError(
                "libpq cannot read this address; in a password, write @ as %40, / as %2F and % "
                "as %25"
            ) from None

    def connect(self, *, may_create: bool) -> Any:
        return psycopg.connect(**self._parameters, autocommit=True)

    def is_refusal(self, error: Exception) -> bool:
        assert isinstance(error, psycopg.Error)
        if error.sqlstate:
            return error.sqlstate.startswith(REFUSED_STATES)
        # From psycopg itself: a value that it cannot send. A lost connection is of another class.
        return isinstance(error, psycopg.DataError | psycopg.ProgrammingError)

    def begin(self, *, to_create: bool) -> None:
        self.execute("BEGIN")
        if to_create:
            self.execute("SELECT pg_advisory_xact_lock(%s)", [CREATION_LOCK])

    def tables(self) -> set[str]:
        found = self.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = current_schema() AND c.relname IN (%s, %s, %s)",
            [PAGES, CONTENTS, MARK],
        )
        return {row[0] for row in found.fetchall()}

    def columns(self) -> set[str]:
        found = self.execute(
            "SELECT a.attname FROM pg_attribute a WHERE a.attrelid = %s::regclass AND a.attnum > 0 "
            "AND NOT a.attisdropped",
            [PAGES],
        )
        return {row[0] for row in found.fetchall()}

    def _type_of(self, column: str) -> str:
        return self.types["time"] if column == "fetched_at" else super()._type_of(column)
