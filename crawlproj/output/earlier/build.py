"""Makes the file in which pages of an earlier crawl are looked up (lookup.py): a process of its
own, so that no worker has DuckDB in its memory.

    python -m crawlproj.output.earlier.build FOLDER FILE WHAT_IT_IS_MADE_OF SKIP_NOFOLLOW
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from w3lib.encoding import http_content_type_encoding

from crawlproj.discover import links
from crawlproj.errors import CrawlError
from crawlproj.fetch.unpacking import TooLarge, Unreadable, unpack
from crawlproj.output.archive import files, index
from crawlproj.output.archive.index import Entry
from crawlproj.output.archive.reading import Head, Record
from crawlproj.output.earlier.lookup import CARRIED, SCHEMA, packed
from crawlproj.output.folder import ARCHIVE
from crawlproj.output.kinds import LINKS
from crawlproj.output.parts import has_parts, sources_of
from crawlproj.output.tables import Tables, open_tables
from crawlproj.output.whole_file import remove_unfinished, written_whole
from crawlproj.urls import UrlError, normalise

AT_ONCE = 1000
MOST_BYTES = 64 << 20
"""Of an archived body; the links of a larger one are not known."""

_CARRIED = ", ".join(f"to_json({name})" for name in CARRIED)
_PAGES = f"SELECT url, to_json([{_CARRIED}])::VARCHAR, links FROM pages"


def build(folder: Path, to: Path, of: str, *, skip_nofollow: bool) -> None:
    """Make the file of the crawl in that folder; it is there when it is whole. One at a time: the
    caller has a lock."""
    remove_unfinished(to)
    with written_whole(to) as unfinished, closing(sqlite3.connect(unfinished)) as rows:
        rows.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; {SCHEMA}")
        with open_tables(folder) as tables:
            _add_pages(rows, tables, has_links=_has_links(folder))
        _add_archived(rows, folder / ARCHIVE, skip_nofollow=skip_nofollow)
        rows.execute("INSERT INTO made VALUES (?)", (of,))
        rows.commit()


def _has_links(folder: Path) -> bool:
    merged = sources_of([folder], LINKS, or_merged=True)
    return has_parts([folder], LINKS) or any(merged.values())


def _add_pages(rows: sqlite3.Connection, tables: Tables, *, has_links: bool) -> None:
    """Pages first, then their links: to join them DuckDB would keep all links in memory."""
    pages = (
        (url, about, packed([]) if usable == 0 or (has_links and usable is None) else None)
        for url, about, usable in tables.each(_PAGES)
    )
    while batch := list(islice(pages, AT_ONCE)):
        rows.executemany("INSERT OR REPLACE INTO pages VALUES (?, ?, ?)", batch)
    links = tables.links_by_page() if has_links else iter(())
    known = ((packed(map(_members, found)), source) for source, found in links if found)
    rows.executemany("UPDATE pages SET links = ? WHERE url = ?", known)


def _members(link: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in link.items() if value is not None}


def _add_archived(rows: sqlite3.Connection, folder: Path, *, skip_nofollow: bool) -> None:
    """Read the links of pages from the archive of which no table has them."""

    def look(record: Record, head: Head, entry: Entry) -> None:
        url = str(entry.fields.get("url", ""))
        wanted = rows.execute("SELECT 1 FROM pages WHERE url = ? AND links IS NULL", (url,))
        if head.status == "200" and wanted.fetchone():
            found = _links_in(record, head, url, skip_nofollow=skip_nofollow)
            if found is not None:
                rows.execute("UPDATE pages SET links = ? WHERE url = ?", (packed(found), url))

    if folder.is_dir():
        for _ in index.entries(files.files_of(folder), look):
            pass


def _links_in(
    record: Record, head: Head, url: str, *, skip_nofollow: bool
) -> list[dict[str, Any]] | None:
    pieces, size = [], 0
    while piece := record.read():
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BYTES:
            return None
    encoding = head.headers.get("content-encoding", "").encode()
    body = b"".join(pieces)
    try:
        plain = unpack(body, [encoding], MOST_BYTES)[0] if encoding and body else body
    except (TooLarge, Unreadable):
        return None
    charset = http_content_type_encoding(head.headers.get("content-type", ""))
    page = links.extract(plain, charset, skip_nofollow=skip_nofollow)
    if not body or (page.nofollow and skip_nofollow):
        return []
    base = links.base_of(page, normalise(url))
    query_encoding = links.query_encoding(page.encoding)
    found = []
    for href in page.links:
        try:
            target = str(normalise(href, base, encoding=query_encoding))
        except UrlError:
            continue
        found.append({"target": target, "text": "", "rel": ""})
    return found


def main() -> None:
    folder, to, of, skip_nofollow = sys.argv[1:]
    try:
        build(Path(folder), Path(to), of, skip_nofollow=skip_nofollow == "1")
    except (CrawlError, OSError, sqlite3.Error) as error:
        sys.exit(f"{folder}: {error}")


if __name__ == "__main__":
    main()
