"""Pages of an earlier crawl by URL, in a file of SQLite: a worker keeps none of them in memory.

Links are those of the earlier crawl's link table, or were read from its archive; where it has kept
neither they are not known, and the page has to be fetched again.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

CARRIED = (
    *("status", "title", "content_type", "size", "links", "content_hash", "etag", "last_modified"),
    *("canonical", "language", "redirect_to"),
)
"""Columns of pages that hold for a page as long as it has not changed."""

ASKED_STATUS = 200
"""Of pages that can be asked for only if they have changed; others are there to be compared."""

SCHEMA = """
CREATE TABLE pages (url TEXT PRIMARY KEY, about TEXT NOT NULL, links BLOB) WITHOUT ROWID;
CREATE TABLE made (of TEXT NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class EarlierPage:
    """What the earlier crawl has of a page."""

    about: Mapping[str, Any]
    """Of its row, the columns that are carried over."""
    links: list[dict[str, str]] | None
    """As its link table has them; None if they are not known."""


class Lookup:
    """A file that has been made. For one thread."""

    def __init__(self, path: Path) -> None:
        self._rows = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)

    def find(self, url: str) -> EarlierPage | None:
        """The page of that URL, if the earlier crawl has a row of it."""
        found = self._rows.execute("SELECT about, links FROM pages WHERE url = ?", (url,))
        row = found.fetchone()
        if row is None:
            return None
        about = dict(zip(CARRIED, json.loads(row[0]), strict=True))
        return EarlierPage(about, None if row[1] is None else json.loads(zlib.decompress(row[1])))

    def counts(self) -> tuple[int, int, int]:
        """How many pages there are, how many of them have a validator, and of how many of those the
        links are known."""
        has_validator = " OR ".join(
            f"about ->> {CARRIED.index(name)} <> ''" for name in ("etag", "last_modified")
        )
        is_asked = f"about ->> {CARRIED.index('status')} = {ASKED_STATUS} AND ({has_validator})"
        validated = f"count(*) FILTER (WHERE {is_asked})"
        known = f"count(*) FILTER (WHERE links IS NOT NULL AND {is_asked})"
        found = self._rows.execute(f"SELECT count(*), {validated}, {known} FROM pages")
        pages, with_validator, with_links = found.fetchone()
        return int(pages), int(with_validator), int(with_links)

    def close(self) -> None:
        """Nobody asks any more."""
        self._rows.close()


def made_of(path: Path) -> str:
    """What a file was made of; empty if it is not there, or none of ours."""
    if not path.is_file():
        return ""
    try:
        rows = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
        try:
            found = rows.execute("SELECT of FROM made").fetchone()
        finally:
            rows.close()
    except sqlite3.Error:
        return ""
    return str(found[0]) if found else ""


def packed(links: Iterable[Mapping[str, Any]]) -> bytes:
    """Links as the file keeps them."""
    return zlib.compress(json.dumps(list(links)).encode(), 1)
