"""Pages in real databases: what is written, what is refused, and when it is committed."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from crawlproj.errors import ConfigError
from crawlproj.items import PageItem
from crawlproj.output.store import writer
from crawlproj.output.store.opening import open_database
from crawlproj.output.store.tables import COLUMNS, Database, StoredPage
from crawlproj.output.store.writer import PageWriter
from tests.servers.postgresql import PostgresServer

HOSTILE = "a\0b \ud800 'x\"; DROP TABLE pages; -- \u2028 \u202e😀 %s ? {}"


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with tempfile.TemporaryDirectory() as folder, PostgresServer(Path(folder)) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/pages.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.database(f"test_{hashlib.md5(str(tmp_path).encode()).hexdigest()}")


@pytest.fixture
def database(address: str, tmp_path: Path) -> Iterator[Database]:
    found = open_database(address, tmp_path / "site")
    yield found
    found.close()


def page(url: str, body: bytes = b"", **columns: Any) -> StoredPage:
    row = PageItem(
        **{
            "url": url,
            "status": 200,
            "size": len(body),
            "content_hash": hashlib.sha256(body).hexdigest() if body else "",
            "fetched_at": "2026-01-31T09:05:00.250Z",
            "worker": "w",
            **columns,
        }
    )
    return StoredPage(row, body, "site", "epoch")


def rows(database: Database, sql: str) -> list[Any]:
    database.open()  # a writer that ends closes it
    return [tuple(row) for row in database.execute(sql).fetchall()]


def test_a_page_is_found_by_its_url_as_it_was_received(database: Database) -> None:
    body = bytes(range(256)) * 999
    database.write([page("http://a/", body, title="T", depth=3, priority=1.5, links=7)])
    row = database.page("http://a/")
    assert row is not None and set(row) == set(COLUMNS)
    assert (row["title"], row["depth"], row["priority"], row["links"]) == ("T", 3, 1.5, 7)
    assert (row["fetched_at"], row["crawl"]) == ("2026-01-31T09:05:00.250Z", "site")
    assert database.body(row["content_hash"]) == body
    totals = database.totals()
    assert totals["bytes"] == len(body) > totals["packed_bytes"] > 0


def test_a_page_that_comes_again_takes_the_place_of_what_was_there(database: Database) -> None:
    database.write([page("http://a/", b"old", title="old"), page("http://b/", b"b")])
    database.write([page("http://a/", b"new", title="new"), page("http://a/", b"newer")])
    assert rows(database, "SELECT url, title FROM pages ORDER BY url") == [
        ("http://a/", ""),
        ("http://b/", ""),
    ]
    row = database.page("http://a/")
    assert row is not None and database.body(row["content_hash"]) == b"newer"


def test_a_page_of_an_older_lease_that_comes_late_does_not_replace_the_newer(
    database: Database,
) -> None:
    early, late = "2026-01-31T09:05:00.250Z", "2026-01-31T09:06:00.250Z"
    database.write([page("http://a/", b"new", title="new", lease=8, fetched_at=early)])
    for clock in (early, late):  # one of them may be wrong
        database.write([page("http://a/", b"old", title="old", lease=7, fetched_at=clock)])
    row = database.page("http://a/")
    assert row is not None and (row["title"], row["lease"]) == ("new", 8)
    assert database.body(row["content_hash"]) == b"new"


@pytest.mark.parametrize(
    ("crawl", "epoch", "lease", "fetched_at"),
    [
        ("site", "epoch", 8, "2026-01-31T09:00:00.000Z"),
        ("site", "next", 1, "2026-02-01T09:00:00.000Z"),
        ("other", "epoch", 1, "2026-01-31T09:00:00.000Z"),
    ],
    ids=["newer lease, though a clock is wrong", "crawl begun anew", "another crawl"],
)
def test_a_page_that_is_newer_replaces_the_row(
    database: Database, crawl: str, epoch: str, lease: int, fetched_at: str
) -> None:
    database.write([page("http://a/", title="old", lease=7)])
    again = page("http://a/", title="new", lease=lease, fetched_at=fetched_at)
    database.write([again._replace(crawl=crawl, epoch=epoch)])
    assert rows(database, "SELECT title FROM pages") == [("new",)]


def test_a_row_of_before_there_were_leases_is_replaced(database: Database) -> None:
    database.write([page("http://a/", title="old")])
    database.execute("UPDATE pages SET lease = NULL")
    database.write([page("http://a/", title="new", fetched_at="2026-01-30T09:00:00.000Z")])
    assert rows(database, "SELECT title FROM pages") == [("new",)]


def test_content_is_stored_once_and_none_where_there_is_none(database: Database) -> None:
    database.write([page(f"http://a/{n}", b"same") for n in range(9)])
    database.write([page("http://b/", b"same"), page("http://c/", status=301)])
    assert rows(database, "SELECT count(*) FROM contents") == [(1,)]
    assert rows(database, "SELECT count(*) FROM pages WHERE content_hash = ''") == [(1,)]


def test_text_that_databases_refuse_is_written_without_what_they_refuse(database: Database) -> None:
    database.write([page("http://a/", b"x", title=HOSTILE, referer=HOSTILE)])
    row = database.page("http://a/")
    assert row is not None
    assert row["title"] == HOSTILE.replace("\0", "\ufffd").replace("\ud800", "?")


async def test_a_row_that_is_refused_costs_no_other(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    kept = PageWriter(database, "site", lambda: "epoch")
    for n in range(5):
        kept.add(page(f"http://a/{n}", b"x", size=1 << 70 if n == 2 else 1))
    await committed(kept)
    assert {row[0][-1] for row in rows(database, "SELECT url FROM pages")} == set("0134")
    assert caplog.text.count("The store refuses http://a/2") == 1


@pytest.mark.parametrize(
    "wrong",
    [{"title": {"a": 1}}, {"title": object()}, {"depth": ["a"]}, {"depth": UUID(int=1)}],
    ids=["dict", "object", "list", "uuid"],
)
async def test_a_value_that_the_driver_cannot_bind_costs_no_other_row(
    database: Database, caplog: pytest.LogCaptureFixture, wrong: dict[str, Any]
) -> None:
    kept = PageWriter(database, "site", lambda: "epoch")
    for n in range(3):
        kept.add(page(f"http://a/{n}", b"x", **(wrong if n == 1 else {})))
    await committed(kept)
    assert {row[0][-1] for row in rows(database, "SELECT url FROM pages")} == set("02")
    assert caplog.text.count("The store refuses http://a/1") == kept.refused == 1
    assert "The store is away" not in caplog.text


async def test_a_fault_of_the_writer_itself_is_told_and_does_not_end_its_thread_in_silence(
    database: Database,
) -> None:
    kept, told = (
        PageWriter(database, "site", lambda: "epoch"),
        asyncio.get_running_loop().create_future(),
    )
    kept.on_error = told.set_result
    kept.start()
    kept.add(page("http://a/", b"x")._replace(page=None))  # type: ignore[arg-type]
    kept.commit_now()
    async with asyncio.timeout(60):
        assert isinstance(await told, AttributeError)
    assert kept.committed == 0
    kept.close()


async def committed(kept: PageWriter) -> None:
    """Have all of it in the database."""
    kept.start()
    kept.commit_now()
    async with asyncio.timeout(60):
        while kept.committed < kept.added:
            await asyncio.sleep(0.01)
    kept.close()


async def test_pages_are_committed_fifty_at_a_time(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []
    write = database.write
    monkeypatch.setattr(database, "write", lambda pages: (batches.append(len(pages)), write(pages)))
    kept = PageWriter(database, "site", lambda: "epoch")
    for n in range(120):
        kept.add(page(f"http://a/{n}", b"x"))
    await committed(kept)
    assert batches == [50, 50, 20]
    assert rows(database, "SELECT count(*) FROM pages") == [(120,)]


async def test_large_pages_go_in_smaller_batches_and_too_many_of_them_are_not_taken_on(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BATCH_BYTES", 1000)
    monkeypatch.setattr(writer, "MOST_WAITING_BYTES", 5000)
    kept, batches = PageWriter(database, "site", lambda: "epoch"), []
    write = database.write
    monkeypatch.setattr(database, "write", lambda pages: (batches.append(len(pages)), write(pages)))
    for n in range(10):
        assert kept.is_full == (n >= 9)
        kept.add(page(f"http://a/{n}", bytes([n]) * 600))
    await committed(kept)
    assert batches == [2] * 5 and not kept.is_full


async def test_a_page_alone_is_committed_after_a_while(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BATCH_S", 0.05)
    kept, told = PageWriter(database, "site", lambda: "epoch"), asyncio.Event()
    kept.on_commit = told.set
    kept.start()
    kept.add(page("http://a/", b"x"))
    async with asyncio.timeout(60):
        await told.wait()
    assert (kept.committed, kept.added) == (1, 1)
    kept.close()


def test_several_workers_may_make_the_tables_at_the_same_time(address: str, tmp_path: Path) -> None:
    at_once, failed = threading.Barrier(6), []

    def work(n: int) -> None:
        at_once.wait()
        try:
            database = open_database(address, tmp_path / "site")
            for _ in range(3):
                database.write([page(f"http://a/{m}", b"%d" % m) for m in range(n, n + 20)])
            database.close()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []
    database = open_database(address, tmp_path / "site", to_read=True)
    assert database.totals()["pages"] == database.totals()["contents"] == 25
    database.close()


def test_a_store_of_before_is_read_as_it_is_and_gets_the_columns_that_it_lacks(
    database: Database, address: str, tmp_path: Path
) -> None:
    database.write([page("http://a/", b"x")])
    database.execute("ALTER TABLE pages DROP COLUMN redirect_to")
    reader = open_database(address, tmp_path / "site", to_read=True)
    row = reader.page("http://a/")
    assert row is not None and (row["redirect_to"], row["crawl"]) == (None, "site")
    reader.close()
    again = open_database(address, tmp_path / "site")
    again.write([page("http://b/", redirect_to="http://c/")])
    assert rows(again, "SELECT redirect_to FROM pages ORDER BY url") == [(None,), ("http://c/",)]
    again.close()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE crawl_store SET version = 99", "version 99"),
        ("DELETE FROM crawl_store", "version none"),
        ("DROP TABLE crawl_store", "a table contents that no crawl has made"),
    ],
)
def test_tables_of_others_are_left_alone(
    database: Database, address: str, tmp_path: Path, change: str, said: str
) -> None:
    database.execute(change)
    with pytest.raises(ConfigError, match=said):
        open_database(address, tmp_path / "site")


@pytest.mark.parametrize("to_read", [True, False])
def test_a_file_of_sqlite_that_is_not_ours_stays_as_it_is(tmp_path: Path, to_read: bool) -> None:
    file = tmp_path / "foreign.db"
    with closing(sqlite3.connect(file)) as theirs:
        theirs.execute("CREATE TABLE pages (number INTEGER)")
        theirs.commit()
    before = file.read_bytes()
    with pytest.raises(ConfigError):
        open_database(f"sqlite:///{file}", tmp_path / "site", to_read=to_read)
    assert file.read_bytes() == before


def not_a_database(folder: Path) -> str:
    (folder / "notes.txt").write_text("x" * 5000)
    return f"sqlite:///{folder}/notes.txt"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: f"sqlite:///{folder}/none/pages.db", "there is no folder"),
        (not_a_database, "file is not a database"),
        (lambda folder: f"sqlite:///{folder}", "unable to open"),
        (lambda folder: "postgresql://u:s3cr3t@127.0.0.1:9/x", "onnection refused"),
        (lambda folder: "postgresql://u:s3%zzcr3t@127.0.0.1:9/x", "libpq cannot read"),
        (lambda folder: "postgresql://u@127.0.0.1:9/x?sslmode=s3cr3t", "sslmode"),
    ],
)
def test_a_store_that_cannot_be_opened_says_so_in_one_line(
    tmp_path: Path, make: Callable[[Path], str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        open_database(make(tmp_path), tmp_path / "site")
    assert "\n" not in str(raised.value) and str(raised.value).startswith("store=")
    assert "s3cr3t@" not in str(raised.value) and "%zz" not in str(raised.value)


def test_a_wrong_password_is_not_shown(postgres: PostgresServer, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="password authentication failed") as raised:
        open_database(postgres.url(password="hunter2"), tmp_path / "site")
    assert "hunter2" not in str(raised.value)


async def test_pages_wait_for_a_database_that_is_away(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Tables that were dropped are an outage like any other, and are made again."""
    for table in ("pages", "contents", "crawl_store"):
        database.execute(f"DROP TABLE {table}")
    kept = PageWriter(database, "site", lambda: "epoch")
    kept.add(page("http://a/", b"x"))
    await committed(kept)
    assert caplog.text.count("The store is away") == caplog.text.count("The store is back") == 1


def test_the_body_of_a_page_can_be_unpacked_by_others(tmp_path: Path) -> None:
    from backports import zstd

    database = open_database(f"sqlite:///{tmp_path}/pages.db", tmp_path / "site")
    database.write([page("http://a/", b"<title>x</title>")])
    database.close()
    plain = sqlite3.connect(tmp_path / "pages.db")
    ((packed, encoding),) = plain.execute("SELECT body, encoding FROM contents").fetchall()
    plain.close()
    assert (zstd.decompress(packed), encoding) == (b"<title>x</title>", "zstd")
