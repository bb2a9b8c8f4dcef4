"""Servers that do not speak HTTP as they should: one crawl over all of them.

Each path misbehaves in its own way. Where it must end is written beside it; that the crawl
finishes and the good pages around it are fetched holds for all of them.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, repeat
from pathlib import Path
from typing import NamedTuple

import brotli  # type: ignore[import-untyped]
import pytest
from isal import igzip

from crawlproj.config import Config
from crawlproj.operate.request_log import Logged, fetch_counts
from tests.servers.fleet import Fleet
from tests.servers.origin import HANG, RESET, Origin, Raw, Reply, Request, Route
from tests.servers.redis import RedisServer, wait_for

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
PAGE = b"<title>good</title>"
MAX_SIZE = 200_000
BOMB = bytes(50 * MAX_SIZE)
ONCE, OFTEN = 1, Config().max_attempts


class Case(NamedTuple):
    """A misbehaving path: `done` or the reason it dies of, and how often it is asked for."""

    route: Route
    ends: str
    fetches: int = ONCE


def encoded(name: str, body: bytes) -> Reply:
    return Reply(headers={"Content-Encoding": name}, body=body)


def moved(to: str) -> Reply:
    return Reply(301, {"Location": to})


def chunked(body: bytes) -> Raw:
    return Raw(OK + b"Transfer-Encoding: chunked\r\n\r\n" + body)


def drip(beginning: bytes, forever: bytes, pause_s: float) -> Raw:
    return Raw(chain([beginning], repeat(forever)), pause_s=pause_s)


def slow_body(_: Request) -> Raw:
    return drip(OK + b"Content-Length: 1000\r\n\r\n", b"x", 0.3)


def slow_headers(_: Request) -> Raw:
    return drip(OK, b"X-Slow: 1\r\n", 0.3)


def endless_body(_: Request) -> Raw:
    return drip(OK + b"\r\n", b"x" * 65536, 0)


def continue_flood(_: Request) -> Raw:
    return drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0)


def reset_once(request: Request) -> Reply | Raw:
    if request.attempt == 1:
        return Raw([OK + b"Content-Length: 100\r\n\r\n", b"half"], then="reset", pause_s=0.05)
    return Reply(body=PAGE)


CASES = {
    # Time
    "silent": Case(HANG, "timeout", OFTEN),
    "slow-headers": Case(slow_headers, "timeout", OFTEN),
    "slow-body": Case(slow_body, "timeout", OFTEN),
    # Size
    "endless-body": Case(endless_body, "size"),
    "announces-too-much": Case(
        Raw(OK + b"Content-Length: 99999999999999\r\n\r\n", then="hang"), "size"
    ),
    "gzip-bomb": Case(encoded("gzip", igzip.compress(BOMB)), "size"),
    "deflate-bomb": Case(encoded("deflate", zlib.compress(BOMB)), "size"),
    "br-bomb": Case(encoded("br", brotli.compress(BOMB, quality=1)), "size"),
    "zstd-bomb": Case(encoded("zstd", zstd.compress(BOMB)), "size"),
    "bomb-in-a-bomb": Case(encoded("gzip, gzip", gzip.compress(igzip.compress(BOMB))), "size"),
    # Lengths
    "length-too-large": Case(Raw(OK + b"Content-Length: 1000\r\n\r\nshort"), "truncated", OFTEN),
    "length-too-small": Case(
        Raw(OK + b"Content-Length: 5\r\n\r\n12345 and more", then="keep"), "done"
    ),
    "length-twice": Case(
        Raw(OK + b"Content-Length: 5\r\nContent-Length: 7\r\n\r\n12345"), "protocol"
    ),
    "length-negative": Case(Raw(OK + b"Content-Length: -5\r\n\r\n12345"), "protocol"),
    "length-no-number": Case(Raw(OK + b"Content-Length: five\r\n\r\n12345"), "protocol"),
    "length-and-chunks": Case(
        Raw(OK + b"Content-Length: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "protocol"
    ),
    "closes-at-once": Case(Raw(), "connection", OFTEN),
    "resets-at-once": Case(RESET, "connection", OFTEN),
    "resets-in-mid-body-once": Case(reset_once, "done", 2),
    "head-cut-off": Case(Raw(OK + b"X-Half: 1"), "connection", OFTEN),
    "head-without-end": Case(Raw(OK), "connection", OFTEN),
    "head-cut-off-after-another": Case(
        Raw(b"HTTP/1.1 103 -\r\n\r\n" + OK + b"X-Half: 1\r\n"), "connection", OFTEN
    ),
    # Chunks
    "chunks-broken-off": Case(chunked(b"5\r\nhello\r\n5\r\nwor"), "truncated", OFTEN),
    "chunks-without-size": Case(chunked(b"zz\r\nhello\r\n0\r\n\r\n"), "protocol"),
    "chunks-without-end": Case(chunked(b"5\r\nhello world"), "protocol"),
    # Encodings
    "gzip-truncated": Case(encoded("gzip", gzip.compress(PAGE * 9000)[:-40]), "done"),
    "gzip-corrupt": Case(encoded("gzip", b"\x1f\x8b\x08" + b"\xff" * 100), "protocol"),
    "gzip-that-is-none": Case(encoded("gzip", PAGE), "protocol"),
    "deflate-that-is-none": Case(encoded("deflate", b"\xff" * 100), "protocol"),
    "br-that-is-none": Case(encoded("br", b"\xff" * 100), "protocol"),
    "zstd-that-is-none": Case(encoded("zstd", PAGE), "protocol"),
    "two-encodings": Case(encoded("deflate, gzip", gzip.compress(zlib.compress(PAGE))), "done"),
    "hundred-encodings": Case(encoded(", ".join(["gzip"] * 100), gzip.compress(PAGE)), "protocol"),
    "encoded-nothing": Case(encoded("gzip", b""), "done"),
    # Redirects
    "redirects-to-itself": Case(moved("/redirects-to-itself"), "redirect_loop"),
    "redirects-to-no-url": Case(moved("http://[::1"), "redirect_nowhere"),
    "redirects-to-nothing": Case(Reply(301), "redirect_nowhere"),
    # Statuses
    "status-500": Case(Reply(500), "http_500", OFTEN),
    # Heads
    "long-header": Case(Raw(OK + b"X-Long: " + b"x" * 100_000 + b"\r\n\r\n"), "protocol"),
    "long-status-line": Case(Raw(b"HTTP/1.1 200 " + b"x" * 100_000 + b"\r\n\r\n"), "protocol"),
    "many-headers": Case(Raw(OK + b"X-Many: 1\r\n" * 10_000 + b"\r\n"), "protocol"),
    "many-cookies": Case(Raw(OK + b"Set-Cookie: a=b\r\n" * 5_000 + b"\r\n"), "protocol"),
    "status-300": Case(Reply(300, body=PAGE), "done"),
    "prefers-a-choice": Case(Reply(300, {"Location": "/good-0"}), "done"),
    "prefers-itself": Case(Reply(300, {"Location": "/prefers-itself"}), "redirect_loop"),
    "status-304": Case(Reply(304), "http_304"),
    "status-305": Case(Reply(305, {"Location": "/good-0"}), "http_305"),
    "status-306": Case(Reply(306), "http_306"),
    "status-399": Case(Reply(399), "http_399"),
    "status-600": Case(Reply(600), "http_600"),
    "status-199": Case(Raw(b"HTTP/1.1 199 -\r\n\r\n"), "connection", OFTEN),
    "status-999": Case(Reply(status=999), "http_999"),
    "status-000": Case(Raw(b"HTTP/1.1 000 -\r\n\r\n"), "protocol"),
    "status-of-four": Case(Raw(b"HTTP/1.1 2000 OK\r\n\r\n"), "protocol"),
    "switches-protocols": Case(
        Raw(b"HTTP/1.1 101 -\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", then="hang"),
        "protocol",
    ),
    "continue-flood": Case(continue_flood, "protocol"),
    "http-0.9": Case(Raw(PAGE), "protocol"),
    "tls-bytes": Case(Raw(b"\x15\x03\x01\x00\x02\x02\x46"), "protocol"),
    "another-protocol": Case(Raw(b"SSH-2.0-OpenSSH_9.6\r\n", then="hang"), "protocol"),
}
GOOD = [f"/good-{number}" for number in range(20)]


def routes() -> dict[str, Route]:
    paths = list(chain.from_iterable(zip((f"/{name}" for name in CASES), GOOD * 9, strict=False)))
    root = "".join(f"<a href={path}>{path}</a>" for path in paths).encode()
    return {
        "/": Reply(body=root),
        **{f"/{name}": case.route for name, case in CASES.items()},
        **dict.fromkeys(GOOD, Reply(body=PAGE)),
    }


class Crawled(NamedTuple):
    fleet: Fleet
    base: str
    reason: str
    log: str
    requests: list[Logged]


@pytest.fixture(scope="module")
def crawled(module_fleet: Fleet) -> Iterator[Crawled]:
    settings = {
        "DOWNLOAD_TIMEOUT": 1.5,
        "DOWNLOAD_MAXSIZE": MAX_SIZE,
        "ROBOTSTXT_OBEY": False,
        "POLITENESS_GIVE_UP": 0,
        "POLITENESS_BACKOFF": 0,
        "FRONTIER_RETRY_DELAY": 0,
    }
    with Origin(routes()) as origin:
        worker = module_fleet.start(settings, seeds=origin.url("/"), delay=0, per_host=16)
        reason = worker.wait(60)
        # The origin notes a request when it is through with it, which slow ones may outlive.
        wanted = sum(case.fetches for case in CASES.values()) + len(GOOD) + 1
        with suppress(TimeoutError):
            wait_for(lambda: len(origin.requests()) >= wanted, "the origin's own notes", 15)
        yield Crawled(module_fleet, origin.url(""), reason, worker.log, origin.requests())


def test_the_crawl_finishes_with_everything_accounted_for(crawled: Crawled) -> None:
    now = crawled.fleet.status()
    assert crawled.reason == "finished"
    assert (now["balance"], now["queued"], now["delayed"], now["leased"]) == (0, 0, 0, 0)
    assert now["done"] + now["dead"] == 1 + len(CASES) + len(GOOD)


def test_no_misbehaviour_is_met_with_a_traceback(crawled: Crawled) -> None:
    assert "Traceback" not in crawled.log


def test_good_pages_beside_bad_ones_are_fetched_whole(crawled: Crawled) -> None:
    titles = {row["url"]: row["title"] for row in crawled.fleet.rows("pages")}
    assert {titles[crawled.base + path] for path in GOOD} == {"good"}


@pytest.mark.parametrize("name", CASES)
def test_each_misbehaviour_ends_as_it_should(name: str, crawled: Crawled) -> None:
    url = f"{crawled.base}/{name}"
    done = ["done"] if url in crawled.fleet.urls() else []
    dead = [row["reason"] for row in crawled.fleet.rows("failures") if row["url"] == url]
    assert done + dead == [CASES[name].ends]


@pytest.mark.parametrize("name", CASES)
def test_only_what_may_pass_is_tried_again(name: str, crawled: Crawled) -> None:
    url = f"{crawled.base}/{name}"
    assert fetch_counts(crawled.requests)[url] == CASES[name].fetches


def test_a_late_answer_to_nothing_is_not_taken_for_the_next_page(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    page = OK + b"Content-Length: 19\r\n\r\n"
    forged = page + b"<title>evil</title>"
    routes: dict[str, Route] = {
        "/": Raw([page + b"<a href=/victim>v</", forged], pause_s=0.2, then="keep"),
        "/victim": Reply(body=PAGE),
    }
    with Origin(routes) as origin, Fleet(tmp_path, redis_server.url) as fleet:
        settings = {"ROBOTSTXT_OBEY": False}
        worker = fleet.start(settings, seeds=origin.url("/"), delay=0.5)
        assert worker.wait(60) == "finished"
        titles = {row["url"]: row["title"] for row in fleet.rows("pages")}
        assert titles == {origin.url("/"): "", origin.url("/victim"): "good"}
