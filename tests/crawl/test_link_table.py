"""The link table, and links that are asked whether they are there: one crawl of a site with links
of every kind, judged by its files and at its origins."""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crawlproj.discover.link_records import checksum, read_checksums
from crawlproj.output import link_table
from crawlproj.output.parts import parts_of
from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply, Request, Route
from tests.servers.redis import RedisServer

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SETTINGS = {
    "CRAWL_ALLOW_ADDRESSES": "loopback",
    "POLITENESS_BACKOFF": "0.05",
    "DOWNLOAD_TIMEOUT": "2",
    "CRAWL_MEDIA": "True",
    "CRAWL_ANCHORS": "True",
}
NOBODY = "http://127.0.4.9:9"
"""Where nobody listens."""

NO_HEAD = ("/no-head", "/zstd", "/gzip", "/not-brotli")


def moved(to: str) -> Reply:
    return Reply(301, {"Location": to})


def no_head(request: Request) -> Reply:
    return Reply(405) if request.method == "HEAD" else Reply()


def packed(encoding: str, pack: Callable[[bytes], bytes]) -> Route:
    """No HEAD, and a large page that is packed whatever the client accepts."""
    page = pack(random.Random(0).randbytes(30_000).hex().encode())
    return lambda request: (
        Reply(405)
        if request.method == "HEAD"
        else Reply(headers={"Content-Encoding": encoding}, body=page)
    )


def busy_at_first(request: Request) -> Reply:
    return Reply(503) if request.attempt < 3 else Reply()


def elsewhere() -> dict[str, Route]:
    """The site that is linked to, and not in scope."""
    return {
        "/robots.txt": Reply(
            headers={"Content-Type": "text/plain"}, body=b"User-agent: *\nDisallow: /private"
        ),
        "/good": Reply(body=b"<a href=/not-followed>x</a>"),
        "/no-head": no_head,
        "/zstd": packed("zstd", zstd.compress),
        "/gzip": packed("gzip", gzip.compress),
        "/not-brotli": packed("br", bytes),
        "/busy": busy_at_first,
        "/old": moved("/gone"),
        "/older": moved("/old"),
        "/round": moved("/round-again"),
        "/round-again": moved("/round"),
        "/private": Reply(),
        "/pixel.png": Reply(headers={"Content-Type": "image/png"}, body=bytes(9)),
    }


def site(other: str) -> dict[str, Route]:
    away = "".join(
        f'<a href="{other}{path}">{path}</a>'
        for path in ("/good", "/busy", "/older", "/round", "/private", "/gone", *NO_HEAD)
    )
    page = f"""<title>t</title><h1 id=top-of-it>One</h1><a name="named">x</a>
        <a href="/two#part">Two <b>of</b> &amp; two</a> <a rel="nofollow me" href=/kept>kept</a>
        <a href="mailto:a@example.com">Mail</a><a href="http://[::1">bad</a>
        <a href="#named">here</a><a href=/moved>moved</a> <a href="{NOBODY}/x">nobody</a>
        <img src=/here.png alt="A picture"><script src="{other}/none.js"></script>
        <link rel=stylesheet href="{other}/pixel.png">
        <a href="/two#part">Two <b>of</b> &amp; two</a>
        <a href="/{"x" * 3000}">long</a><a href=/two><img alt="An image" src=/lost.png></a>{away}"""
    return {
        "/robots.txt": Reply(404),
        "/": Reply(body=page.encode()),
        "/two": Reply(body=away.encode() + b"<p id=part>"),
        "/moved": moved("/two"),
        "/kept": Reply(),
        "/here.png": Reply(headers={"Content-Type": "image/png"}, body=bytes(9)),
    }


class Seen:
    """What was to be seen of the crawl."""

    def __init__(self, fleet: Fleet, origin: Origin, other: Origin) -> None:
        self.origin, self.other = origin.url(""), other.url("")
        self.asked = [(one.method, one.path) for one in origin.requests()]
        self.asked_there = [(one.method, one.path) for one in other.requests()]
        self.status = fleet.status()
        self.failures = {row["url"]: row for row in fleet.rows("failures")}
        self.pages = fleet.urls()
        self.parts = parts_of([fleet.output / "site"], "links", "jsonl.zst")
        self.rows = {row["source"]: row for part in self.parts for row in read(part)}


def read(part: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in link_table.lines_of(part)]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, redis_process: RedisServer) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("links")
    redis_process.start()
    with redis_process.client() as client:
        client.flushall()
    with (
        Origin(elsewhere(), address="127.0.4.2") as other,
        Origin(site(other.url("")), address="127.0.4.1") as origin,
        Fleet(folder, redis_process.url, settings=SETTINGS) as fleet,
    ):
        for _ in range(2):
            fleet.start(seeds=origin.url("/"), delay=0, links="true", check="all")
        assert fleet.wait() == ["finished", "finished"]
        yield Seen(fleet, origin, other)


def test_a_page_has_a_row_with_every_link(seen: Seen) -> None:
    links = seen.rows[f"{seen.origin}/"]["links"]
    found = {(one["target"].removeprefix(seen.origin), one["text"], one["rel"]) for one in links}
    assert found >= {
        ("/two", "Two of & two", ""),
        ("/kept", "kept", "nofollow me"),
        ("/moved", "moved", ""),
        ("/two", "An image", ""),
        (f"{seen.other}/gone", "/gone", ""),
        ("/here.png", "A picture", "img"),
        (f"{seen.other}/none.js", "", "script"),
        (f"{seen.other}/pixel.png", "", "stylesheet"),
    }
    assert max(Counter(json.dumps(one) for one in links).values()) == 1


def test_what_is_no_url_is_kept_as_it_is_written(seen: Seen) -> None:
    links = seen.rows[f"{seen.origin}/"]["links"]
    targets = {one["text"]: one["target"] for one in links}
    assert targets["Mail"] == "mailto:a@example.com"
    assert targets["bad"] == "http://[::1"
    assert len(targets["long"]) == 200


def test_fragments_and_where_they_can_lead_are_kept(seen: Seen) -> None:
    first, second = seen.rows[f"{seen.origin}/"], seen.rows[f"{seen.origin}/two"]
    fragments = {(one["target"], one.get("fragment")) for one in first["links"]}
    assert {(f"{seen.origin}/two", "part"), (f"{seen.origin}/", "named")} <= fragments
    there = read_checksums(first["anchors"])
    assert [checksum(one) in there for one in ("named", "top-of-it", "part")] == [1, 1, 0]
    assert checksum("part") in read_checksums(second["anchors"])


def test_a_redirect_is_a_row_with_one_link(seen: Seen) -> None:
    row = seen.rows[f"{seen.origin}/moved"]
    assert row["links"] == [{"target": f"{seen.origin}/two", "text": "", "rel": "redirect"}]
    assert seen.rows[f"{seen.other}/older"]["links"][0]["target"] == f"{seen.other}/old"


def test_a_link_that_leaves_the_scope_is_asked_once_and_not_followed(seen: Seen) -> None:
    asked = Counter(seen.asked_there)
    assert asked["HEAD", "/good"] == 1
    assert ("GET", "/good") not in asked
    assert not [path for _, path in asked if path == "/not-followed"]


@pytest.mark.parametrize("link", NO_HEAD)
def test_a_link_is_asked_with_get_where_head_is_refused(seen: Seen, link: str) -> None:
    """And judged by its status: the beginning that is read of its body says nothing of it, and
    often cannot be unpacked."""
    asked = [method for method, path in seen.asked_there if path == link]
    assert asked == ["HEAD", "GET"]
    assert f"{seen.other}{link}" not in seen.failures


def test_what_robots_txt_disallows_is_not_asked_either(seen: Seen) -> None:
    assert "/private" not in [path for _, path in seen.asked_there]
    assert seen.status["filtered"]["robots"] == 1


def test_a_broken_link_is_a_failure_with_the_page_that_has_it(seen: Seen) -> None:
    broken = {url.removeprefix(seen.other): row for url, row in seen.failures.items()}
    assert set(broken) == {
        *("/gone", "/none.js", f"{seen.origin}/lost.png", f"{NOBODY}/x"),
        *[url for url in broken if url.startswith("/round")][:1],
    }
    gone = broken["/gone"]
    assert (gone["status"], gone["kind"], gone["reason"]) == ("404", "permanent", "http_404")
    assert gone["referer"] in (f"{seen.origin}/", f"{seen.origin}/two")
    nobody = broken[f"{NOBODY}/x"]
    assert (nobody["status"], nobody["kind"], nobody["reason"]) == ("0", "transient", "unreachable")
    assert broken[f"{seen.origin}/lost.png"]["referer"] == f"{seen.origin}/"


def test_a_link_that_is_busy_at_first_is_not_broken(seen: Seen) -> None:
    assert [method for method, path in seen.asked_there if path == "/busy"].count("GET") <= 1
    assert f"{seen.other}/busy" not in seen.failures


def test_checks_are_neither_pages_nor_rows_and_the_ledger_balances(seen: Seen) -> None:
    assert sorted(seen.pages) == [f"{seen.origin}{path}" for path in ("/", "/moved", "/two")]
    assert seen.status["done"] == 3
    assert seen.status["balance"] == 0
    assert seen.status["filtered"]["checked"] >= 8


def test_what_a_page_embeds_or_marks_nofollow_is_asked_by_its_headers(seen: Seen) -> None:
    assert ("HEAD", "/here.png") in seen.asked
    assert ("HEAD", "/kept") in seen.asked
    assert ("GET", "/kept") not in seen.asked
    assert ("HEAD", "/pixel.png") in seen.asked_there


def test_the_links_of_every_page_are_on_disk_though_a_worker_was_killed(
    fleet: Fleet,
) -> None:
    pages: dict[str, Route] = {
        f"/{n}": Reply(body=f"<a href=/{2 * n + 1}>a</a><a href=/{2 * n + 2}>b</a>".encode())
        for n in range(30)
    }
    with Origin(pages, address="127.0.4.3") as origin:
        given = {"seeds": origin.url("/0"), "delay": 0, "links": "true"}
        quick = {"FRONTIER_LEASE_TIMEOUT": "1"}
        killed = fleet.start(quick, env={"CRAWL_FAILPOINT": "settle:3"}, **given)
        killed.process.wait(60)
        assert fleet.start(quick, **given).wait() == "finished"
    rows = [
        row
        for part in parts_of([fleet.output / "site"], "links", "jsonl.zst")
        for row in read(part)
    ]
    assert {row["source"] for row in rows} == set(fleet.urls())
    assert len(set(fleet.urls())) == fleet.status()["done"] == 30


def test_links_that_are_only_asked_for_use_up_no_page_budget(fleet: Fleet) -> None:
    away = {f"/{n}": Reply() for n in range(20)}
    with Origin(away, address="127.0.4.5") as other:
        links = "".join(f'<a href="{other.url(path)}">x</a>' for path in away)
        pages: dict[str, Route] = {
            f"/{n}": Reply(body=f"<a href=/{n + 1}>next</a>{links if n == 0 else ''}".encode())
            for n in range(9)
        }
        with Origin(pages, address="127.0.4.4") as origin:
            given = {"seeds": origin.url("/0"), "delay": 0, "check": "offsite", "pages": 5}
            assert fleet.start(SETTINGS, **given).wait() == "finished"
    now = fleet.status()
    assert sorted(fleet.urls()) == [f"{origin.url('')}/{n}" for n in range(5)]
    assert (now["done"], now["balance"]) == (5, 0)


def test_a_link_that_may_be_tried_once_is_not_judged_by_head_alone(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    settings = {**SETTINGS, "FRONTIER_MAX_ATTEMPTS": "1"}
    with (
        Origin({"/no-head": no_head}, address="127.0.4.2") as other,
        Origin({"/": Reply(body=f"<a href={other.url('/no-head')}>x</a>".encode())}) as origin,
        Fleet(tmp_path, redis_server.url, settings=settings) as fleet,
    ):
        assert fleet.start(seeds=origin.url("/"), delay=0, check="offsite").wait(30) == "finished"
        methods = [one.method for one in other.requests() if one.path == "/no-head"]
    assert methods == ["HEAD", "GET"]
    assert fleet.rows("failures") == []
