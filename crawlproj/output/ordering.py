"""Rows of any width in an order, within bounded memory.

DuckDB keeps whole rows in memory while it sorts them, those of the texts of pages too. So wide rows
are sorted by their keys alone, and copied in that order, as many at a time as memory has room for.
"""

from __future__ import annotations

from crawlproj.output.database import Database
from crawlproj.output.sql import name

ROWS_PER_MB = 20
"""Of memory, that are copied at a time: with 50 KB each they would fill it."""


def create_in_order(
    database: Database, table: str, columns: str, order: str, *, chosen: str, time: str
) -> None:
    """Make a table of the rows of `read` whose numbers are chosen. `time` is the column that most
    parts are in the order of: by it, most of them need not be looked at for each piece."""
    run = database.run
    run(
        f"CREATE TABLE places AS SELECT rowid AS number, row_number() OVER (ORDER BY {order}) "
        f"AS place, {name(time)} AS moment FROM read WHERE rowid IN ({chosen})"
    )
    run(f"CREATE TABLE {table} AS SELECT {columns} FROM read LIMIT 0")
    size = ROWS_PER_MB * database.memory_mb
    total = run("SELECT count(*) FROM places")[0][0]
    for start in range(0, total, size):
        piece = f"places WHERE place > {start} AND place <= {start + size}"
        times = run(f"SELECT min(moment), max(moment) FROM {piece}")[0]
        run(
            f"INSERT INTO {table} SELECT {columns} FROM read JOIN (FROM {piece}) "
            f"ON read.rowid = number WHERE {name(time)} BETWEEN ? AND ? ORDER BY place",
            times,
        )
    run("DROP TABLE places")
