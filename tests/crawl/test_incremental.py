"""Crawls against the files of an earlier one, of an origin whose pages have validators: judged by
their files and at the origin."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlproj.output.link_table import lines_of, read_row
from crawlproj.output.parts import parts_of
from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply, Request, Route
from tests.servers.redis import RedisServer

PAGES = [f"/{number}" for number in range(8)]
SINCE = "Tue, 17 Nov 2026 23:49:02 GMT"


class Site:
    """Its pages are told apart by ETag, by date, or not at all. They form a chain: whoever loses
    the links of one sees no more of the rest."""

    def __init__(self) -> None:
        self.version = 1
        self.answered: list[tuple[str, int, bool]] = []
        """Path, status, and whether it was asked with a condition."""

    def page(self, path: str) -> Reply:
        number = int(path[1:])
        following = f"<a href=/{number + 1}>next</a>" if path != PAGES[-1] else ""
        if path == "/3":
            following += f"<p>{self.version}</p>" + "<a href=/new>new</a>" * (self.version > 1)
        offsite = "<a rel=nofollow href=http://127.0.4.8/away>away</a>"
        return Reply(
            headers=self._validators(path),
            body=f"<title>Page {path}</title>{following}{offsite}{'x' * 3000}".encode(),
        )

    def _validators(self, path: str) -> dict[str, str]:
        if path == "/5":
            return {}
        if path == "/2":
            return {"Last-Modified": SINCE}
        return {"ETag": f'"{path}-{self.version if path == "/3" else 1}"'}

    def answer(self, request: Request) -> Reply:
        reply = (
            Reply(body=b"<title>New</title>") if request.path == "/new" else self.page(request.path)
        )
        etag, since = (request.headers.get(name) for name in ("if-none-match", "if-modified-since"))
        is_same = (etag and etag == reply.headers.get("ETag")) or since == SINCE
        if is_same:
            reply = Reply(304, {**reply.headers, "Content-Length": "0"})
        self.answered.append((request.path, reply.status, bool(etag or since)))
        return reply

    def take_answered(self) -> dict[str, int]:
        found, self.answered = {path: status for path, status, _ in self.answered}, []
        return found

    def routes(self) -> dict[str, Route]:
        return {"/robots.txt": Reply(404), **dict.fromkeys((*PAGES, "/new"), self.answer)}


@pytest.fixture(scope="module")
def site() -> Site:
    return Site()


@pytest.fixture(scope="module")
def origin(site: Site) -> Iterator[Origin]:
    with Origin(site.routes(), address="127.0.4.7") as origin:
        yield origin


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, redis_process: RedisServer) -> Iterator[Fleet]:
    redis_process.start()
    with redis_process.client() as client:
        client.flushall()
    settings = {"POLITENESS_DELAY": "0"}
    folder = tmp_path_factory.mktemp("incremental")
    with Fleet(folder, redis_process.url, settings=settings) as fleet:
        yield fleet


def crawl(fleet: Fleet, origin: Origin, name: str, **given: str) -> str:
    """Crawl the site by that name; returns what the worker said."""
    worker = fleet.start(crawl=name, seeds=origin.url("/0"), **given)
    assert worker.wait() == "finished"
    return worker.log


def rows_of(fleet: Fleet, name: str) -> dict[str, dict[str, str]]:
    return {row["url"].rpartition("/")[2]: row for row in fleet.rows("pages", name)}


def links_of(folder: Path) -> dict[str, list[str]]:
    parts = parts_of([folder], "links", "jsonl.zst")
    lines = [line for part in parts for line in lines_of(part)]
    rows = [row for row in map(read_row, lines) if row is not None]
    return {row["source"]: sorted(link["target"] for link in row["links"]) for row in rows}


@pytest.fixture(scope="module")
def first(fleet: Fleet, origin: Origin, site: Site) -> Path:
    """A crawl that has kept its links. One page has changed since."""
    crawl(fleet, origin, "first", links="true")
    assert set(site.take_answered().values()) == {200}
    site.version = 2
    return fleet.output / "first"


def test_only_what_has_changed_is_transferred_and_no_page_is_lost(
    fleet: Fleet, origin: Origin, site: Site, first: Path
) -> None:
    said = crawl(fleet, origin, "second", against=str(first), links="true")
    assert "Of 8 pages of" in said
    assert ", 7 are asked for only if they have changed" in said
    whole = {path for path, status in site.take_answered().items() if status == 200}
    assert whole == {"/3", "/5", "/new"}
    before, after = rows_of(fleet, "first"), rows_of(fleet, "second")
    assert after.keys() == before.keys() | {"new"}
    assert {name: row["change"] for name, row in after.items()} == {
        **dict.fromkeys(before, "unchanged"),
        "3": "changed",
        "new": "new",
    }
    for name in before.keys() - {"3"}:
        same = ("status", "title", "content_hash", "size", "content_type", "etag", "last_modified")
        assert [after[name][column] for column in same] == [before[name][column] for column in same]
    earlier, now = links_of(first), links_of(fleet.output / "second")
    assert now.keys() == earlier.keys() | {origin.url("/new")}
    assert all(now[url] == found for url, found in earlier.items() if not url.endswith("/3"))
    summary = json.loads((fleet.output / "second" / "summary.json").read_bytes())
    unchanged = [row for name, row in before.items() if name not in ("3", "5")]
    assert summary["saved_bytes"] == sum(int(row["size"]) for row in unchanged)
    assert summary["statuses"]["304"] == len(unchanged)
    assert "not transferred" in (fleet.output / "second" / "summary.txt").read_text()


def test_a_crawl_against_one_that_itself_was_against_another_has_all_it_needs(
    fleet: Fleet, origin: Origin, site: Site, first: Path
) -> None:
    crawl(fleet, origin, "third", against=str(first), links="true")
    site.take_answered()
    crawl(fleet, origin, "fourth", against=str(fleet.output / "third"))
    whole = {path for path, status in site.take_answered().items() if status == 200}
    assert whole == {"/5", "/new"}
    assert rows_of(fleet, "fourth").keys() == rows_of(fleet, "third").keys()


def test_the_next_crawl_of_the_same_name_takes_links_from_the_archive_of_the_one_before(
    fleet: Fleet, origin: Origin, site: Site, first: Path
) -> None:
    crawl(fleet, origin, "again", archive="true")
    before = rows_of(fleet, "again")
    site.take_answered()
    fleet.run = "another"
    said = crawl(fleet, origin, "again", against=str(fleet.output / "again"))
    assert "are asked for only if they have changed" in said
    whole = {path for path, status in site.take_answered().items() if status == 200}
    assert whole == {"/5", "/new"}
    after = rows_of(fleet, "again")
    assert after.keys() == before.keys()
    assert {row["change"] for row in after.values()} == {"unchanged"}


def test_a_page_whose_links_are_not_known_is_asked_for_as_a_whole_and_that_is_said(
    fleet: Fleet, origin: Origin, site: Site, first: Path
) -> None:
    crawl(fleet, origin, "bare")
    site.take_answered()
    said = crawl(fleet, origin, "after", against=str(fleet.output / "bare"))
    assert "The links of 6 pages of" in said
    assert "keep links (-a links=true) or an archive (-a archive=true)" in said
    conditional = {path for path, _, is_asked in site.answered if is_asked}
    assert conditional <= {PAGES[-1], "/new"}  # they have no links to lose
    assert rows_of(fleet, "after").keys() == rows_of(fleet, "bare").keys()


def test_a_crawl_that_reads_more_than_links_fetches_pages_and_tells_what_has_changed(
    fleet: Fleet, origin: Origin, site: Site, first: Path, tmp_path: Path
) -> None:
    rules = tmp_path / "fields.toml"
    rules.write_text('title = "title"')
    site.take_answered()
    said = crawl(fleet, origin, "fields", against=str(first), extract=str(rules))
    assert "for this crawl has fields to extract" in said
    assert not any(is_asked for _, _, is_asked in site.answered)
    assert rows_of(fleet, "fields")["3"]["change"] == "changed"


def test_redirects_and_bodies_that_are_not_read_are_compared_by_what_is_known(fleet: Fleet) -> None:
    def picture(request: Request) -> Reply:
        return Reply(headers={"Content-Type": "image/png"}, body=b"%05d" % request.attempt)

    def longer(request: Request) -> Reply:
        return Reply(headers={"Content-Type": "image/png"}, body=b"p" * request.attempt)

    def moved(request: Request) -> Reply:
        return Reply(302, {"Location": "/0" if request.attempt == 1 else "/picture"})

    paths = {"moved": moved, "picture": picture, "longer": longer}
    home = "".join(f"<a href=/{path}>x</a>" for path in (*paths, "to"))
    routes: dict[str, Route] = {f"/{path}": answer for path, answer in paths.items()}
    routes |= {"/0": Reply(body=home.encode()), "/to": Reply(301, {"Location": "/0"})}
    with Origin({"/robots.txt": Reply(404), **routes}, address="127.0.4.9") as origin:
        crawl(fleet, origin, "before", links="true")
        crawl(fleet, origin, "since", links="true", against=str(fleet.output / "before"))
    found = {name: row["change"] for name, row in rows_of(fleet, "since").items()}
    known = {"0": "unchanged", "to": "unchanged", "moved": "changed", "longer": "changed"}
    assert found == {**known, "picture": ""}


def test_an_earlier_crawl_may_have_more_files_than_an_argument_has_room_for(
    fleet: Fleet, origin: Origin, first: Path, tmp_path: Path
) -> None:
    shutil.copytree(first, tmp_path, dirs_exist_ok=True)
    for number in range(1500):
        (tmp_path / f"a-file-with-a-name-that-is-not-short-{number}.txt").touch()
    said = crawl(fleet, origin, "of-many", against=str(tmp_path))
    assert ", 7 are asked for only if they have changed" in said


def test_a_folder_that_is_not_there_stops_the_start_with_one_line(fleet: Fleet) -> None:
    done = fleet.command("crawl", "site", "-a", "against=output/nowhere")
    assert done.returncode != 0
    assert "against=output/nowhere: no such folder" in done.stderr
    assert "Traceback" not in done.stderr
