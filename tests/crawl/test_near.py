"""Near-duplicates, found by a real crawl of several workers; judged by its files and the origin."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.crawl.command_line import in_output, json_of
from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply, Request

ARTICLES = 12
MANY = 40
PATTERN_PAGES = 15
SETTINGS = {"ROBOTSTXT_OBEY": False, "CRAWL_PATTERN_PAGES": PATTERN_PAGES}


def text(number: int) -> str:
    words = random.Random(number).choices([f"word{n}" for n in range(2000)], k=200)
    return f"<p>{' '.join(words)}</p>"


def page(request: Request) -> Reply:
    """Articles, each with a print view and in a mirror, and pages that have no text."""
    folder, _, name = request.path.partition("?")[0].strip("/").rpartition("/")
    if not name.isdecimal():
        return Reply(404)
    number = int(name)
    if folder == "empty":
        return Reply(body=b"<title>x</title><nav>Only a menu, and nothing else</nav>")
    menu = "".join(f"<li>Another menu, line {line}</li>" for line in range(number % 7))
    body = f"<title>{folder} {number}</title><nav>{menu}</nav>{text(number)}<p>Visit {number}</p>"
    return Reply(body=body.encode())


class Crawled(NamedTuple):
    rows: dict[str, dict[str, str]]
    """By path."""
    copy_of: dict[str, str]
    filtered: dict[str, int]
    clusters: dict[str, Any]
    log: str


def links(folder: str, numbers: range, query: str = "") -> str:
    return "".join(f"<a href=/{folder}/{number}{query}>x</a>" for number in numbers)


@pytest.fixture(scope="module")
def crawled(module_fleet: Fleet) -> Iterator[Crawled]:
    articles, many = range(ARTICLES), range(100, 100 + MANY)
    home = links("article", articles) + links("empty", range(5)) + links("mirrored", many)
    later = links("article", articles, "?print=1") + links("mirror/x", many)
    routes = {
        "/": Reply(body=f"{home}<a href=/later>x</a>".encode()),
        "/later": Reply(body=later.encode()),
    }
    with Origin(routes, default=page) as origin:
        for _ in range(2):
            module_fleet.start(SETTINGS, seeds=origin.url("/"), delay=0, per_host=8, near="true")
        assert module_fleet.wait() == ["finished"] * 2
        module_fleet.assert_settled()
        root = origin.url("")
        rows = {row["url"].removeprefix(root): row for row in module_fleet.rows("pages")}
        copy_of = {
            path: row["near_duplicate_of"].removeprefix(root)
            for path, row in rows.items()
            if row["near_duplicate_of"]
        }
        yield Crawled(
            rows,
            copy_of,
            module_fleet.status()["filtered"],
            json_of(in_output(module_fleet, "near", "site", "--json")),
            "".join(worker.log for worker in module_fleet.workers),
        )


def number_of(path: str) -> str:
    return path.partition("?")[0].rpartition("/")[2]


def test_a_copy_names_the_page_that_it_is_a_copy_of(crawled: Crawled) -> None:
    assert crawled.copy_of
    for path, first in crawled.copy_of.items():
        assert number_of(path) == number_of(first)
        assert path != first
        assert first not in crawled.copy_of


def test_pages_without_text_are_copies_of_nothing(crawled: Crawled) -> None:
    empty = [path for path in crawled.rows if path.startswith("/empty/")]
    assert len(empty) == 5
    assert not crawled.copy_of.keys() & {*empty, "/", "/later"}


def test_each_print_view_is_found_over_both_workers(crawled: Crawled) -> None:
    fetched = [path for path in crawled.rows if path.startswith("/article/")]
    articles = {number_of(path) for path in fetched}
    firsts = {number_of(path) for path in fetched if path not in crawled.copy_of}
    assert articles == firsts
    assert len(fetched) - len(firsts) == sum(path in crawled.copy_of for path in fetched)


def test_copies_are_not_followed_for_ever(crawled: Crawled) -> None:
    mirrored = [path for path in crawled.rows if path.startswith("/mirror/x/")]
    assert PATTERN_PAGES <= len(mirrored) < MANY
    assert crawled.filtered["pattern"] >= MANY - len(mirrored)
    assert "/mirror/x/# is set aside (copies)" in crawled.log


def test_the_command_lists_clusters(crawled: Crawled) -> None:
    found = crawled.clusters
    assert found["copies"] == len(crawled.copy_of)
    assert found["total"] == len(set(crawled.copy_of.values()))
    urls = [url for cluster in found["clusters"] for url in cluster["urls"]]
    assert len(found["clusters"]) == min(50, found["total"])
    assert all(cluster["copies"] == len(cluster["urls"]) for cluster in found["clusters"])
    assert len(urls) == len(set(urls))
