"""Every kind of bad content in one crawl: what is read of a page, and that it ends.

Each page has its own title and a link to `/from/<name>`. What was understood of it is what its row
and the origin's log say.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from itertools import chain, repeat
from typing import NamedTuple

import pytest

from crawlproj.discover.links import MAX_LINKS
from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Raw, Reply, Request, Route

MAX_SIZE = 2_000_000
MANY_LINKS = 40_000
DEEP = 100_000
OFFSITE = "http://elsewhere.test"


class Case(NamedTuple):
    """A page: what comes as its body, and what is understood of it."""

    body: bytes
    title: str | None = "Straße"
    """None: the page must end dead for its size."""
    follows: bool = True
    kind: str = "text/html"


def page(name: str, title: str = "Straße") -> str:
    return f"<title>{title}</title><a href='/from/{name}'>x</a>"


def meta(charset: str) -> str:
    return f"<meta charset={charset}>"


CASES = {
    # Encodings
    "header and meta in conflict": Case(
        (meta("utf-8") + page("conflict")).encode("cp1252"), kind="text/html; charset=iso-8859-1"
    ),
    "meta alone": Case((meta("windows-1252") + page("meta")).encode("cp1252")),
    "nothing declared, UTF-8": Case(page("utf8").encode()),
    "nothing declared, Latin-1": Case(page("latin1").encode("cp1252")),
    "BOM against the header": Case(
        codecs.BOM_UTF8 + page("bom").encode(), kind="text/html; charset=iso-8859-1"
    ),
    "UTF-16 with a mark, little-endian": Case(
        codecs.BOM_UTF16_LE + page("utf16le").encode("utf-16-le")
    ),
    "UTF-16 with a mark, big-endian": Case(
        codecs.BOM_UTF16_BE + page("utf16be").encode("utf-16-be")
    ),
    "UTF-16 by the header": Case(
        page("utf16h").encode("utf-16-le"), kind="text/html; charset=utf-16"
    ),
    "UTF-16 that is none": Case((meta("utf-16") + page("no16")).encode()),
    "unknown charset": Case(page("unknown").encode(), kind="text/html; charset=klingon"),
    "codec that is no charset": Case(page("zip").encode(), kind="text/html; charset=zip"),
    "charset with quadratic time": Case(page("puny").encode(), kind="text/html; charset=punycode"),
    "charset of a megabyte": Case(page("long").encode(), kind="text/html; charset=" + "x" * 9_000),
    "broken UTF-8": Case(
        b"<title>a\xffb</title><a href=/from/broken>x",
        title="a\ufffdb",
        kind="text/html; charset=utf-8",
    ),
    "query in the page's encoding": Case(
        "<title>да</title><a href='/from/query?да'>x</a>".encode("cp1251"),
        title="да",
        kind="text/html; charset=windows-1251",
    ),
    "query of a page in UTF-16": Case(
        "<title>да</title><a href='/from/query16?да'>x</a>".encode("utf-16-le"),
        title="да",
        kind="text/html; charset=utf-16",
    ),
    # What is no text
    "PNG called HTML": Case(b"\x89PNG\r\n\x1a\n" + page("png").encode(), "", follows=False),
    "ZIP called HTML": Case(b"PK\x03\x04" + page("zipfile").encode(), "", follows=False),
    "noise called HTML": Case(bytes(range(256)) * 40, "", follows=False),
    "empty body": Case(b"", "", follows=False),
    "blanks only": Case(b" \r\n\t" * 1000, "", follows=False),
    # Markup
    "100,000-deep DOM": Case(b"<div>" * DEEP + page("deep").encode() + b"</div>" * DEEP),
    "100,000 unclosed fonts": Case(b"<font>" * DEEP + page("fonts").encode()),
    "unclosed markup": Case(page("unclosed").encode() + b"<p><b><table><tr><td><a href='/never"),
    "unclosed comment": Case(page("comment").encode() + b"<!-- <a href=/never>x</a>"),
    "unclosed script": Case(page("script").encode() + b"<script>'<a href=/never>x</a>'"),
    "unclosed title": Case(b"<a href=/from/title>x</a><title>no end", "no end"),
    "NULs": Case(page("nuls").replace("<a", "\0<a").encode() + b"<\0a href=/never>x</a>"),
    "attributes without end": Case(page("attributes").encode() + b"<a " + b"a=b " * 100_000),
    "a million brackets": Case(page("brackets").encode() + b"<" * 1_000_000),
    "a megabyte of entities": Case(page("entities").encode() + b"&#x41;" * 150_000),
    "title of a megabyte": Case(
        f"<title>{'t' * 1_000_000}</title><a href=/from/huge-title>".encode(), "t" * 500
    ),
    "two titles": Case((page("titles") + "<title>second</title>").encode()),
    "title of blanks and controls": Case(
        b"<title>\x01\x1f a \x7f\r\nb\t</title><a href=/from/controls>x</a>", "a b"
    ),
    # Sizes
    "large text node": Case(page("large").encode() + b"t" * (MAX_SIZE - 1000)),
    "text node beyond the limit": Case(b"t" * (MAX_SIZE + 1), None, follows=False),
    "links without end": Case(
        page("many").encode()
        + b"".join(b"<a href=%s/%d>" % (OFFSITE.encode(), n) for n in range(MANY_LINKS))
    ),
    "one link, many times": Case(page("same").encode() * 20_000),
}


def path_of(name: str) -> str:
    return f"/page/{list(CASES).index(name)}"


def endless_text(_: Request) -> Raw:
    """50 MB and more of one text node, without a length that would give it away."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<title>endless</title>"
    return Raw(chain([head], repeat(b"t" * 100_000, 500)))


class Crawled(NamedTuple):
    fleet: Fleet
    base: str
    log: str
    asked: list[str]
    rows: dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def crawled(module_fleet: Fleet) -> Iterator[Crawled]:
    routes: dict[str, Route] = {
        path_of(name): Reply(headers={"Content-Type": case.kind}, body=case.body)
        for name, case in CASES.items()
    }
    routes["/endless"] = endless_text
    seed = "".join(f"<a href={path}>x</a>" for path in routes)
    routes["/"] = Reply(body=seed.encode())
    with Origin(routes, default=Reply(body=b"<title>found</title>")) as origin:
        settings = {"ROBOTSTXT_OBEY": False, "DOWNLOAD_MAXSIZE": MAX_SIZE}
        worker = module_fleet.start(settings, seeds=origin.url("/"), delay=0, per_host=16)
        assert worker.wait(90) == "finished"
        rows = {row["url"].removeprefix(origin.url("")): row for row in module_fleet.rows("pages")}
        asked = [one.path for one in origin.requests()]
        yield Crawled(module_fleet, origin.url(""), worker.log, asked, rows)


def test_the_crawl_finishes_with_everything_accounted_for(crawled: Crawled) -> None:
    now = crawled.fleet.status()
    assert [now[name] for name in ("balance", "queued", "delayed", "leased")] == [0] * 4
    assert now["done"] == len(crawled.rows)
    assert now["reasons"] == {"size": 2}
    assert "Traceback" not in crawled.log


@pytest.mark.parametrize("name", CASES)
def test_each_page_is_understood_as_far_as_it_can_be(name: str, crawled: Crawled) -> None:
    case, row = CASES[name], crawled.rows.get(path_of(name))
    assert (row and row["title"]) == case.title
    if row:
        assert row["size"] == str(len(case.body))


def test_every_link_that_can_be_read_is_followed_and_no_other(crawled: Crawled) -> None:
    wanted = sum(case.follows for case in CASES.values())
    followed = [path for path in crawled.asked if path.startswith("/from/")]
    others = set(crawled.asked) - set(followed)
    assert len(set(followed)) == len(followed) == wanted
    assert others == {"/", "/endless", *map(path_of, CASES)}


def test_queries_are_escaped_as_browsers_do_for_such_a_page(crawled: Crawled) -> None:
    assert {"/from/query?%E4%E0", "/from/query16?%D0%B4%D0%B0"} <= set(crawled.asked)


@pytest.mark.parametrize("path", ["/endless", path_of("text node beyond the limit")])
def test_a_page_beyond_the_size_limit_ends_dead(path: str, crawled: Crawled) -> None:
    failures = {row["url"]: row["reason"] for row in crawled.fleet.rows("failures")}
    assert failures[crawled.base + path] == "size"
    assert crawled.asked.count(path) == 1


def test_links_beyond_the_maximum_are_left_out_and_counted(crawled: Crawled) -> None:
    left_out = MANY_LINKS + 1 - MAX_LINKS
    assert crawled.fleet.status()["filtered"] == {"offsite": MAX_LINKS - 1}
    assert crawled.rows[path_of("links without end")]["links"] == str(MAX_LINKS)
    url = crawled.base + path_of("links without end")
    assert f"{url} has {left_out:,} links more than the {MAX_LINKS:,} that are kept" in crawled.log


def test_a_link_that_is_there_20_000_times_is_one_link(crawled: Crawled) -> None:
    assert crawled.rows[path_of("one link, many times")]["links"] == "1"
