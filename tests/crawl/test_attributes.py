"""Attributes of pages, kept by a real crawl; judged by its files."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawlproj.output.kinds import ATTRIBUTES
from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply, Route
from tests.servers.redis import RedisServer

PAGES = [f"/{number}" for number in range(8)]
SPEECH = "The council met to decide about the old harbour, and voted to keep the warehouses. " * 4


def site() -> dict[str, Route]:
    anchors = "".join(
        f"<a href={path}>{path}</a>" for path in [*PAGES, "/moved", "/deep", "/f.pdf"]
    )
    day = time.strftime("%Y-%m-%d", time.gmtime())
    pages = {
        path: Reply(
            body=f"<html lang=en><title>Page {path}</title><meta name=author content='Ada Reed'>"
            f"<meta name=date content={day if int(path[1:]) % 2 else '2020-01-31'}>"
            f"<link rel=canonical href=/0><article><p>{SPEECH}</p></article>".encode()
        )
        for path in PAGES
    }
    return {
        "/robots.txt": Reply(404),
        "/": Reply(
            headers={"Content-Type": "text/html", "ETag": '"abc"', "Content-Language": "en"},
            body=f"<title>Home</title><p>{anchors}<footer>© 2024 The Town</footer>".encode(),
        ),
        "/moved": Reply(301, {"Location": "/1"}),
        "/deep": Reply(body=b"<title>Deep</title>" + b"<div>" * 100_000),
        "/f.pdf": Reply(headers={"Content-Type": "application/pdf"}, body=b"%PDF-"),
        **pages,
    }


def rows_of(folder: Path) -> list[dict[str, Any]]:
    parts = sorted(folder.glob("attributes-*.jsonl"))
    return [json.loads(line) for part in parts for line in part.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def origin() -> Iterator[Origin]:
    with Origin(site(), address="127.0.4.7") as origin:
        yield origin


@pytest.fixture(scope="module")
def fleet(
    tmp_path_factory: pytest.TempPathFactory, redis_process: RedisServer, origin: Origin
) -> Iterator[Fleet]:
    """A crawl that has finished. Its first worker, which fetched one page at a time, was killed
    when it had settled some."""
    redis_process.start()
    with redis_process.client() as client:
        client.flushall()
    settings = {"POLITENESS_DELAY": "0", "FRONTIER_LEASE_TIMEOUT": "2"}
    with Fleet(tmp_path_factory.mktemp("attributes"), redis_process.url, settings=settings) as one:
        given = {"seeds": origin.url("/"), "attributes": "true", "per_host": 1}
        killed = one.start(env={"CRAWL_FAILPOINT": "settle:6"}, **given)
        killed.process.wait(60)
        one.start(**given)
        assert one.workers[1].wait() == "finished"
        yield one


def test_every_page_that_was_settled_has_a_row_though_a_worker_was_killed(
    fleet: Fleet, origin: Origin
) -> None:
    rows = rows_of(fleet.output / "site")
    wanted = {origin.url(path) for path in ("/", "/deep", *PAGES)}
    assert {row["url"] for row in rows} == wanted
    assert {tuple(row) for row in rows} == {tuple(ATTRIBUTES.columns)}
    fleet.assert_settled()


def test_a_row_says_what_the_page_says(fleet: Fleet, origin: Origin) -> None:
    rows = {row["url"]: row for row in rows_of(fleet.output / "site")}
    pages = {row["url"]: row for row in fleet.rows("pages")}
    row = rows[origin.url("/2")]
    assert (row["title"], row["author"], row["language"]) == ("Page /2", "Ada Reed", "en")
    assert (row["published"], row["canonical"]) == ("2020-01-31", origin.url("/0"))
    assert "voted to keep the warehouses" in row["text"]
    assert row["fetched_at"] in {one["fetched_at"] for one in fleet.rows("pages")}
    assert rows[origin.url("/")]["owner"] == "The Town"
    home = pages[origin.url("/")]
    assert (home["etag"], home["language"]) == ('"abc"', "en")
    assert pages[origin.url("/2")]["canonical"] == origin.url("/0")


def test_a_page_that_cannot_be_read_in_time_has_an_empty_row(fleet: Fleet, origin: Origin) -> None:
    row = next(row for row in rows_of(fleet.output / "site") if row["url"] == origin.url("/deep"))
    assert (row["title"], row["text"], row["videos"]) == (None, None, None)
    assert any("No attributes of" in worker.log for worker in fleet.workers)


def test_merge_and_query_have_each_page_once(fleet: Fleet) -> None:
    folder = ["-s", f"CRAWL_OUTPUT={fleet.output}"]
    assert fleet.command("merge", "site", *folder).returncode == 0
    merged = (fleet.output / "site" / "attributes.jsonl").read_bytes().splitlines()
    assert len(merged) == len(PAGES) + 2
    sql = "SELECT count(*) AS n FROM attributes WHERE author = 'Ada Reed' AND language = 'en'"
    found = fleet.command("query", "site", sql, "--format", "json", *folder)
    assert json.loads(found.stdout)[0]["n"] == len(PAGES)


def test_only_pages_that_satisfy_the_rule_have_a_row(
    fleet: Fleet, origin: Origin, tmp_path: Path
) -> None:
    rule = "published within 7 days and language = en"
    worker = fleet.start(crawl="kept", seeds=origin.url("/"), keep=rule, deny="deep")
    assert worker.wait() == "finished"
    rows = rows_of(fleet.output / "kept")
    assert {row["url"] for row in rows} == {origin.url(path) for path in PAGES[1::2]}
    assert len(list((fleet.output / "kept").glob("pages-*.csv"))) == 1


def test_a_bad_rule_stops_the_start_with_one_line_that_shows_the_place(fleet: Fleet) -> None:
    done = fleet.command("crawl", "site", "-a", "keep=published withn 7 days")
    assert done.returncode != 0
    assert "keep=published withn 7 days: column 11, at “withn 7 days”: give" in done.stderr
    assert "Traceback" not in done.stderr
