"""Crawls whose pages are kept in a database: real workers that are killed, a PostgreSQL that is
stopped, a disk that is full, and what is typed wrong."""

from __future__ import annotations

import hashlib
import resource
import signal
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis as RedisClient

from crawlproj import failpoints
from tests.crawl.command_line import assert_one_line, in_output, json_of
from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply, Route
from tests.servers.postgresql import PASSWORD, PostgresServer
from tests.servers.redis import wait_for

PAGES = 297
SETTINGS = {"POLITENESS_PER_HOST": "8", "FRONTIER_LEASE_TIMEOUT": "4"}


START = Reply(body=b"<a href=/0>0</a><a href=/moved>m</a><a href=/picture>p</a><a href=/gone>g")


def body_of(number: int) -> bytes:
    """Pages 1 and 2 are the same; the others differ, and do not pack well."""
    noise = hashlib.shake_256(b"%d" % max(number, 2)).hexdigest(2000).encode()
    links = b"".join(b"<a href=/%d>x</a>" % (number * 8 + n) for n in range(1, 9))
    return b"<title>\0 a title</title>" + (links if number < PAGES // 8 else b"") + noise


def site() -> dict[str, Route]:
    routes: dict[str, Route] = {
        f"/{number}": Reply(body=body_of(number)) for number in range(PAGES)
    }
    return {
        "/robots.txt": Reply(404),
        **routes,
        "/moved": Reply(301, {"Location": "/0"}),
        "/picture": Reply(headers={"Content-Type": "image/png"}, body=bytes(9)),
        "/gone": Reply(404),
        "/": START,
    }


@pytest.fixture(scope="module")
def origin() -> Iterator[Origin]:
    with Origin(site()) as found:
        yield found


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with tempfile.TemporaryDirectory() as folder, PostgresServer(Path(folder)) as server:
        yield server


def start(fleet: Fleet, origin: Origin, store: str, delay: float = 0.0, **more: Any) -> Any:
    return fleet.start(SETTINGS, seeds=origin.url("/"), delay=delay, store=store, **more)


def assert_complete(fleet: Fleet, stored: list[tuple[str, str]]) -> None:
    """Rows are the pages that are done, each once."""
    fleet.assert_settled()
    urls = [url for url, _ in stored]
    assert len(urls) == len(set(urls)) == fleet.status()["done"]
    assert set(urls) == set(fleet.urls())
    bodies = {url.rpartition("/")[2]: found for url, found in stored}
    for number in (0, 7, PAGES - 1):
        assert bodies[str(number)] == hashlib.sha256(body_of(number)).hexdigest()
    assert bodies["moved"] == bodies["picture"] == ""
    assert "gone" not in bodies


def in_sqlite(path: Path, sql: str) -> list[Any]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


AT_END = "settle:2"
AWAY = "The store is away"
ROWS = "SELECT url, content_hash FROM pages"


def test_rows_are_the_done_pages_though_a_worker_is_killed_while_it_writes(
    fleet: Fleet, origin: Origin, tmp_path: Path
) -> None:
    path = tmp_path / "pages.db"
    doomed = start(fleet, origin, f"sqlite:///{path}", delay=0.02)
    # Dies with pages that are committed and not settled yet.
    torn = start(fleet, origin, f"sqlite:///{path}", delay=0.02, env={failpoints.VARIABLE: AT_END})
    wait_for(lambda: path.exists() and fleet.status()["done"] >= 50, "a batch")
    doomed.kill()
    assert torn.process.wait(60) == -signal.SIGKILL
    assert fleet.status()["done"] <= len(in_sqlite(path, ROWS))
    second = start(fleet, origin, f"sqlite:///{path}")
    start(fleet, origin, f"sqlite:///{path}")
    assert second.wait() == "finished"
    fleet.workers[-1].wait()
    assert fleet.status()["reclaimed"] > 0
    assert_complete(fleet, in_sqlite(path, ROWS))
    same = in_sqlite(path, "SELECT count(*) FROM contents")
    assert same == in_sqlite(
        path, "SELECT count(DISTINCT content_hash) FROM pages WHERE content_hash <> ''"
    )
    shown = json_of(in_output(fleet, "store", "site", "--store", f"sqlite:///{path}", "--json"))
    assert shown["pages"] == fleet.status()["done"]
    url = origin.url("/7")
    got = in_output(fleet, "store", "site", "--store", f"sqlite:///{path}", "--get", url)
    assert got.stdout.encode() == body_of(7)


def test_a_crawl_waits_for_a_postgresql_that_is_away_and_loses_nothing(
    fleet: Fleet, origin: Origin, postgres: PostgresServer
) -> None:
    address = postgres.database("stopped")
    workers = [start(fleet, origin, address, delay=0.02) for _ in range(2)]
    wait_for(lambda: fleet.status()["done"] >= 50, "a batch")
    postgres.stop()
    wait_for(lambda: any(AWAY in one.log for one in workers), AWAY)
    wait_for(lambda: not fleet.status()["queued"], "the end of what can be done without it", 60)
    before = fleet.status()
    assert before["leased"] > 100
    postgres.start()
    assert [one.wait() for one in workers] == ["finished"] * 2
    assert fleet.status()["done"] > before["done"]
    assert fleet.status()["reclaimed"] == 0
    assert_complete(fleet, postgres.query(ROWS, "stopped"))
    for one in workers:
        assert one.log.count(AWAY) == one.log.count("The store is back") <= 1
        assert PASSWORD not in one.log
    kept = RedisClient.from_url(fleet.redis_url)
    assert not any(PASSWORD.encode() in (kept.dump(key) or b"") for key in kept.scan_iter())
    kept.close()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs Linux to fill a disk later on")
def test_a_crawl_waits_while_the_disk_of_its_store_is_full(
    fleet: Fleet, origin: Origin, tmp_path: Path
) -> None:
    path = tmp_path / "pages.db"
    worker = start(fleet, origin, f"sqlite:///{path}", delay=0.02)
    wait_for(lambda: path.exists() and fleet.status()["done"] >= 50, "a batch")
    sizes = [part.stat().st_size for part in (path, Path(f"{path}-wal")) if part.exists()]
    _, most = resource.prlimit(worker.process.pid, resource.RLIMIT_FSIZE, (max(sizes), -1))
    worker.wait_for_log(AWAY)
    assert fleet.status()["done"] <= len(in_sqlite(path, ROWS))
    resource.prlimit(worker.process.pid, resource.RLIMIT_FSIZE, (most, most))
    assert worker.wait() == "finished"
    assert_complete(fleet, in_sqlite(path, ROWS))


def test_a_worker_that_is_told_to_go_commits_what_it_has(fleet: Fleet, origin: Origin) -> None:
    path = fleet.output / "site" / "store" / "pages.sqlite"
    worker = start(fleet, origin, "sqlite", delay=0.02)
    wait_for(lambda: len(fleet.urls()) >= 20, "pages")
    worker.signal(signal.SIGTERM)
    worker.wait()
    assert fleet.status()["leased"] == 0
    assert len(in_sqlite(path, ROWS)) == fleet.status()["done"] > 0
    without = fleet.start(SETTINGS, seeds=origin.url("/"))
    without.wait()
    assert "add -a store=" in without.log


@pytest.mark.parametrize(
    ("store", "parts"),
    [
        ("mysql://u:s3cr3t@h/d", ("store=mysql://…@h/d", "sqlite:///FILE", "postgresql://")),
        ("sqlite:///none/such/pages.db", ("store=sqlite:///none/such/pages.db", "folder")),
        ("sqlite:///{output}/site/pages.db", ("site/pages.db", "give another folder")),
        ("postgresql://u:a@s3cr3t@h/d", ("store=postgresql://…@h/d", "%40")),
        ("postgresql://u:s3cr3t@127.0.0.1:9/d", ("store=postgresql://…@127.0.0.1:9/d", "refused")),
    ],
)
def test_a_store_that_cannot_be_used_stops_the_start_with_one_line(
    fleet: Fleet, store: str, parts: tuple[str, ...]
) -> None:
    ended = in_output(fleet, "crawl", "site", "-a", f"store={store.format(output=fleet.output)}")
    assert_one_line(ended, 2, *parts)
    assert "s3cr3t" not in ended.stderr


def test_the_command_says_what_is_not_there(fleet: Fleet, tmp_path: Path) -> None:
    assert_one_line(in_output(fleet, "store", "site"), 2, "CRAWL_STORE")
    none = f"sqlite:///{tmp_path}/none.db"
    assert_one_line(in_output(fleet, "store", "site", "--store", none), 2, "no such file")
    assert not (tmp_path / "none.db").exists()
