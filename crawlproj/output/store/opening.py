"""From what CRAWL_STORE says to a database that can be written to, or one line that says what is
wrong with it."""

from __future__ import annotations

from pathlib import Path

from crawlproj.config.choices import SQLITE
from crawlproj.config.kinds import without_password
from crawlproj.errors import ConfigError, CrawlError
from crawlproj.output.store.tables import Database

FILE = Path("store", "pages.sqlite")
"""The store of a crawl that is not told where, in its folder. Not right there: files are moved from
there when the next crawl begins (folder.py), and a store is open by then."""


def open_database(address: str, folder: Path, *, to_read: bool = False) -> Database:
    """Connect, and make the tables where there are none, unless it is to be read; raises
    ConfigError, without a password. `folder` is the crawl's."""
    try:
        database = _database(address, folder)
        if to_read:
            database.open_to_read()
        else:
            if address == SQLITE:
                (folder / FILE).parent.mkdir(parents=True, exist_ok=True)
            database.open()
    except (CrawlError, OSError) as error:
        raise ConfigError(f"store={without_password(address)}: {error}") from None
    return database


def _database(address: str, folder: Path) -> Database:
    if address.startswith(SQLITE):
        from crawlproj.output.store.sqlite import SqliteDatabase

        path = folder / FILE
        if address != SQLITE:
            path = Path(address.removeprefix("sqlite:///"))
        if path.parent.resolve() == folder.resolve():
            raise ConfigError(
                f"files of {folder} are moved when the next crawl begins; give another folder"
            )
        return SqliteDatabase(path)
    from crawlproj.output.store.postgresql import PostgresDatabase

    return PostgresDatabase(address)
