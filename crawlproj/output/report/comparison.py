"""A crawl beside an earlier one: what came, went, changed, broke and was mended since."""

from __future__ import annotations

from pathlib import Path

from crawlproj.output.database import MEMORY_MB
from crawlproj.output.report.model import Comparison, Listing
from crawlproj.output.sql import literal
from crawlproj.output.tables import Tables, open_tables

MOST_URLS = 10_000

_IS_PAGE = "status BETWEEN 200 AND 299"
_QUESTIONS = {
    "added": f"SELECT url FROM pages WHERE {_IS_PAGE} AND url NOT IN "
    f"(SELECT url FROM pages_before WHERE {_IS_PAGE})",
    "gone": f"SELECT url FROM pages_before WHERE {_IS_PAGE} AND url NOT IN "
    f"(SELECT url FROM pages WHERE {_IS_PAGE})",
    "changed": "SELECT pages.url FROM pages JOIN pages_before AS before ON before.url = pages.url "
    f"WHERE pages.{_IS_PAGE} AND before.{_IS_PAGE} "
    "AND pages.content_hash IS DISTINCT FROM before.content_hash",
    "newly_broken": "SELECT DISTINCT url FROM failures "
    "WHERE url NOT IN (SELECT url FROM failures_before)",
    "mended": "SELECT url FROM failures_before WHERE url NOT IN (SELECT url FROM failures) "
    "AND url IN (SELECT url FROM pages)",
}


def compare(tables: Tables, before: Path, memory_mb: int = MEMORY_MB) -> Comparison:
    """What is different from the crawl whose files are in `before`."""
    _bring(tables, before, memory_mb)
    found = {name: _urls(tables, sql) for name, sql in _QUESTIONS.items()}
    return Comparison(str(before), **found)


def _bring(tables: Tables, before: Path, memory_mb: int) -> None:
    """Put the earlier pages and failures beside ours. The earlier tables are closed at once: only
    one database at a time takes memory."""
    columns = {"pages": "url, status, content_hash", "failures": "DISTINCT url"}
    with open_tables(before, memory_mb) as earlier:
        for table, wanted in columns.items():
            file = literal(str(tables.folder / f"{table}_before.parquet"))
            earlier.ask(f"COPY (SELECT {wanted} FROM {table}) TO {file} (FORMAT parquet)")
    for table in columns:
        file = literal(str(tables.folder / f"{table}_before.parquet"))
        tables.ask(f"CREATE VIEW {table}_before AS SELECT * FROM read_parquet({file})")


def _urls(tables: Tables, sql: str) -> Listing:
    total = tables.ask(f"SELECT count(*) FROM ({sql})")[0][0]
    rows = tables.ask(f"SELECT url FROM ({sql}) ORDER BY url LIMIT {MOST_URLS}")
    return Listing(("url",), rows, total)
