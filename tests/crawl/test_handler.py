"""What Scrapy asks of a download handler, asked of ours: judged by its responses, and by what the
origin was sent."""

from __future__ import annotations

import asyncio
import base64
import gc
import gzip
import logging
import random
import sys
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import brotli  # type: ignore[import-untyped]
import pytest
from scrapy import Request, signals
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
    StopDownload,
    UnsupportedURLSchemeError,
)
from scrapy.http import HtmlResponse, Response, TextResponse
from scrapy.utils.test import get_crawler

from crawlproj.errors import BadRequest, BadResponse
from crawlproj.fetch import unpacking
from crawlproj.fetch.handler import SafeDownloadHandler
from crawlproj.fetch.unpacking import MOST_PARTS, WINDOW_BYTES, TooLarge, Unreadable, unpack
from crawlproj.fetch.wire import Wire
from tests.servers.clients import Answers, call, client
from tests.servers.h2_origin import H2Origin
from tests.servers.origin import HANG, Origin, Raw, Reply
from tests.servers.origin import Request as Asked
from tests.servers.threaded import ThreadedServer
from tests.servers.tls import Authority
from tests.servers.tunnel import Tunnel

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PAGE = "<title>caf\u00e9</title>".encode() + b"<p>text" * 1000
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


class Site:
    """Answers with what it was asked, and keeps it."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def echo(self, request: Asked) -> Reply:
        self.asked.append(request)
        return Reply(headers={"Set-Cookie": "a=b", "X-Twice": "1"}, body=PAGE)


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def origin(site: Site) -> Iterator[Origin]:
    routes = {
        "/moved": Reply(302, {"Location": "/elsewhere"}),
        "/hang": HANG,
        "/short": Raw(HEAD + b"Content-Length: 1000\r\n\r\nshort"),
        "/folded": Raw(HEAD + b"X-A: 1\r\nX-Fold: one\r\n two\r\nX-a: 2\r\n\r\n"),
        "/chunks": Raw(
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\npage\r\n0\r\nX-Trailer: 1\r\n\r\n"
        ),
    }
    with Origin(routes, default=site.echo) as server:
        yield server


@asynccontextmanager
async def handler(**settings: Any) -> AsyncIterator[SafeDownloadHandler]:
    crawler = get_crawler(settings_dict={"CRAWL_ALLOW_ADDRESSES": "loopback", **settings})
    one = SafeDownloadHandler(crawler)
    try:
        yield one
    finally:
        await one.close()


async def fetch(request: Request, **settings: Any) -> Response:
    async with handler(**settings) as one:
        return await one.download_request(request)


async def test_a_response_says_where_it_came_from_and_how(origin: Origin) -> None:
    request = Request(origin.url("/page"))
    response = await fetch(request)
    assert isinstance(response, HtmlResponse)
    assert (response.status, response.url, response.body) == (200, request.url, PAGE)
    assert (response.ip_address, response.protocol) == (ip_address("127.0.0.1"), "HTTP/1.1")
    assert (response.certificate, response.flags) == (None, [])
    assert 0 < request.meta["download_latency"] < 10


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"])
@pytest.mark.parametrize("body", [b"", b"a=b\r\n\0\xff"])
async def test_methods_and_bodies_go_out_as_they_are(
    origin: Origin, site: Site, method: str, body: bytes
) -> None:
    if method == "HEAD" and body:
        pytest.skip("no such request")
    async with handler() as one:
        headers = {"Content-Type": "x/y"} if body else {}
        request = Request(origin.url("/a"), method=method, body=body, headers=headers)
        response = await one.download_request(request)
        await one.download_request(Request(origin.url("/b")))
    sent, after = site.asked
    assert (sent.method, sent.body, sent.headers.get("content-type")) == (
        method,
        body,
        "x/y" if body else None,
    )
    assert (sent.headers.get("content-length") == "0") is (method in ("POST", "PUT") and not body)
    assert (after.method, after.body, "content-length" in after.headers) == ("GET", b"", False)
    assert response.body == (b"" if method == "HEAD" else PAGE)


async def test_headers_are_those_of_the_request_and_no_others(origin: Origin, site: Site) -> None:
    request = Request(origin.url("/a?b=%20&c=/../d"), headers={"X-Own": "\u00fc", "X-Empty": ""})
    response = await fetch(request)
    [asked] = site.asked
    assert asked.path == "/a?b=%20&c=/../d"
    assert asked.headers.keys() == {"host", "x-own", "x-empty", "accept-encoding"}
    assert asked.headers["host"] == origin.host
    assert asked.headers["x-own"].encode("latin-1") == "\u00fc".encode()
    assert response.headers.getlist("X-Twice") == [b"1"]


async def test_nothing_is_done_on_libcurls_own_account(
    origin: Origin, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No redirect followed, no cookie kept, no proxy of the environment, no identity of a file."""
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with handler() as one:
        moved = await one.download_request(Request(origin.url("/moved")))
        for _ in range(2):
            await one.download_request(Request(origin.url("/again")))
    assert (moved.status, moved.headers["Location"]) == (302, b"/elsewhere")
    assert [asked.path for asked in site.asked] == ["/again"] * 2
    assert not any({"cookie", "authorization"} & asked.headers.keys() for asked in site.asked)


async def test_dots_in_a_path_are_the_servers_to_read(origin: Origin, site: Site) -> None:
    await fetch(Request(origin.url("/a/../b/./c")))
    assert site.asked[0].path == "/a/../b/./c"


INJECTED = [
    {"headers": {"X-A": "1\r\nX-Evil: 1"}},
    {"headers": {"X-A": "1\nX-Evil: 1"}},
    {"headers": {"X-A\r\nX-Evil": "1"}},
    {"headers": {"X-A": "1\0"}},
    {"method": "GET / HTTP/1.1\r\nX-Evil:"},
    {"meta": {"proxy": "PROXY"}, "headers": {"Proxy-Authorization": "Basic x\r\nX-Evil: 1"}},
]


@pytest.mark.parametrize("injected", INJECTED, ids=str)
async def test_a_request_cannot_be_split(
    origin: Origin, site: Site, injected: dict[str, Any]
) -> None:
    if "meta" in injected:
        injected = {**injected, "meta": {"proxy": origin.url("")}}
    with pytest.raises(BadRequest):
        await fetch(Request(origin.url("/"), **injected))
    assert site.asked == []


@pytest.mark.parametrize("end", ["a\r\nX-Evil: 1", "a\0b", "a b", "\x7f"])
async def test_a_url_cannot_split_a_request_either(origin: Origin, site: Site, end: str) -> None:
    class Unquoted(Request):
        """Scrapy's own would quote it."""

        url = origin.url("/") + end

    with pytest.raises(BadRequest):
        await fetch(Unquoted(origin.url("/")))
    assert not any("x-evil" in asked.headers for asked in site.asked)


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("http://127.0.0.1:1/", DownloadConnectionRefusedError),
        ("http://no-such-host.invalid/", CannotResolveHostError),
        ("ftp://127.0.0.1/", UnsupportedURLSchemeError),
        ("http:///path", UnsupportedURLSchemeError),
        ("gopher://127.0.0.1:1/", UnsupportedURLSchemeError),
    ],
)
async def test_what_cannot_be_had_has_scrapys_name_for_it(url: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        await fetch(Request(url))


async def test_the_timeout_of_a_request_counts(origin: Origin) -> None:
    with pytest.raises(DownloadTimeoutError, match=r"/hang took longer than 0\.2 s"):
        await fetch(Request(origin.url("/hang"), meta={"download_timeout": 0.2}))


async def test_a_request_that_is_cancelled_is_broken_off_at_once(origin: Origin) -> None:
    async with handler() as one:
        task = asyncio.create_task(one.download_request(Request(origin.url("/hang"))))
        while not origin.times_asked("/hang"):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not origin.requests():
            await asyncio.sleep(0.01)
        assert one.break_off() == 0


async def test_the_time_that_a_name_took_is_part_of_the_time_of_a_page(origin: Origin) -> None:
    class Slow(Answers):
        async def resolve(self, host: str) -> Sequence[str]:
            await asyncio.sleep(0.05)
            return await super().resolve(host)

    url = origin.url("/hang").replace("127.0.0.1", "slow.example")
    async with client(resolver=Slow(["127.0.0.1"])) as asking:
        with pytest.raises(DownloadTimeoutError, match=r"/hang took longer than 0\.3 s"):
            await asking.exchange(call(url, timeout_s=0.3))


async def test_the_handlers_of_all_schemes_share_connections_and_what_is_known_of_names(
    origin: Origin,
) -> None:
    crawler = get_crawler(settings_dict={"CRAWL_ALLOW_ADDRESSES": "loopback"})
    handlers = [SafeDownloadHandler(crawler) for _ in ("http", "https")]
    for one in handlers:
        await one.download_request(Request(origin.url("/page")))
    assert len({request.peer for request in origin.requests()}) == 1
    for one in handlers:
        await one.close()


async def test_what_is_broken_off_while_its_name_is_looked_up_does_not_go_out(
    origin: Origin,
) -> None:
    is_known = asyncio.Event()

    class Late(Answers):
        async def resolve(self, host: str) -> Sequence[str]:
            await is_known.wait()
            return await super().resolve(host)

    url = origin.url("/lost").replace("127.0.0.1", "late.example")
    async with client(resolver=Late(["127.0.0.1"])) as asking:
        lost = asyncio.create_task(asking.exchange(call(url)))
        await asyncio.sleep(0)
        assert asking.break_off() == 1
        is_known.set()
        with pytest.raises(DownloadFailedError, match="broken off"):
            await lost
    assert origin.times_asked("/lost") == 0


async def test_part_of_a_page_is_kept_where_that_is_wanted(
    origin: Origin, caplog: pytest.LogCaptureFixture
) -> None:
    async with handler() as one:
        for _ in range(2):
            with pytest.raises(ResponseDataLossError):
                await one.download_request(Request(origin.url("/short")))
        meta = {"download_fail_on_dataloss": False}
        response = await one.download_request(Request(origin.url("/short"), meta=meta))
    assert (response.body, response.flags) == (b"short", ["dataloss"])
    assert caplog.text.count("Got data loss") == 1


async def test_sizes_are_limited_and_warned_of(
    origin: Origin, caplog: pytest.LogCaptureFixture
) -> None:
    for meta in ({"download_maxsize": 1000}, {"download_warnsize": 1000}):
        request = Request(origin.url("/"), meta=meta)
        if "download_maxsize" in meta:
            with pytest.raises(DownloadCancelledError):
                await fetch(request)
        else:
            assert (await fetch(request)).body == PAGE
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2


@pytest.mark.parametrize(
    ("method", "head"),
    [
        ("HEAD", b"HTTP/1.1 200 OK"),
        ("GET", b"HTTP/1.1 304 Not Modified"),
        ("GET", b"HTTP/1.1 204 No Content"),
    ],
)
async def test_the_size_of_a_body_that_does_not_come_is_not_limited(
    method: str, head: bytes
) -> None:
    with Origin({}, default=Raw(head + b"\r\nContent-Length: 20000000\r\n\r\n")) as large:
        response = await fetch(Request(large.url("/"), method=method), DOWNLOAD_MAXSIZE=1000)
    assert (response.body, response.headers["Content-Length"]) == (b"", b"20000000")


async def test_who_does_not_want_a_page_is_asked_before_it_is_too_large(origin: Origin) -> None:
    def leave(**_: Any) -> None:
        raise StopDownload(fail=False)

    async with handler(DOWNLOAD_MAXSIZE=1000) as one:
        one.crawler.signals.connect(leave, signals.headers_received)
        response = await one.download_request(Request(origin.url("/")))
    assert (response.status, response.body) == (200, b"")


async def test_a_length_of_thousands_of_digits_is_none() -> None:
    head = HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n"
    with Origin({}, default=Raw(head)) as odd, pytest.raises(BadResponse):
        await fetch(Request(odd.url("/")))


def deflate_without_header(body: bytes) -> bytes:
    return zlib.compress(body)[2:-4]


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("GZIP", lambda body: gzip.compress(body[:99]) + gzip.compress(body[99:])),
        ("deflate", zlib.compress),
        ("deflate", deflate_without_header),
        ("br", brotli.compress),
        ("zstd", zstd.compress),
        ("zstd", lambda body: zstd.compress(body[:99]) + zstd.compress(body[99:])),
        ("deflate, gzip", lambda body: gzip.compress(zlib.compress(body))),
        ("identity", bytes),
    ],
)
async def test_bodies_are_unpacked_once(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    body = PAGE * 100
    wrapped = pack(body)
    reply = Reply(headers={"Content-Encoding": encoding}, body=wrapped)
    with Origin({}, default=reply) as origin:
        response = await fetch(Request(origin.url("/page.html")))
        packed = await fetch(Request(origin.url("/page.html")), COMPRESSION_ENABLED=False)
    assert response.body == body and "Content-Encoding" not in response.headers
    assert isinstance(response, TextResponse) and response.css("title::text").get() == "caf\u00e9"
    assert packed.body == wrapped and packed.headers["Content-Encoding"] == encoding.encode()


@pytest.mark.parametrize(("encoding", "pack"), [(b"gzip", gzip.compress), (b"zstd", zstd.compress)])
def test_a_body_has_many_parts_but_not_any_number(
    encoding: bytes, pack: Callable[[bytes], bytes]
) -> None:
    """Each takes time, and an empty one is a few bytes."""
    noise = random.Random(1).randbytes(3 * WINDOW_BYTES)
    large = pack(noise) + pack(b"") * (MOST_PARTS - 2) + pack(noise)
    assert unpack(large, [encoding], 0) == (noise * 2, [])
    with pytest.raises(TooLarge):
        unpack(large, [encoding], 2 * len(noise) - 1)
    with pytest.raises(Unreadable, match="more than 1,000 parts"):
        unpack(large + pack(b""), [encoding], 0)


@pytest.mark.parametrize(("encoding", "pack"), [(b"gzip", gzip.compress), (b"zstd", zstd.compress)])
def test_a_part_may_end_anywhere_in_a_window(
    monkeypatch: pytest.MonkeyPatch, encoding: bytes, pack: Callable[[bytes], bytes]
) -> None:
    body = pack(PAGE) + pack(b"") + pack(PAGE[::-1])
    for size in range(1, len(body) + 2):
        monkeypatch.setattr(unpacking, "WINDOW_BYTES", size)
        assert unpack(body, [encoding], 2 * len(PAGE)) == (PAGE + PAGE[::-1], [])


async def test_what_nobody_can_unpack_is_left_packed(caplog: pytest.LogCaptureFixture) -> None:
    reply = Reply(headers={"Content-Encoding": "exi, gzip"}, body=gzip.compress(b"exi"))
    with Origin({}, default=reply) as origin:
        response = await fetch(Request(origin.url("/")))
    assert (response.body, response.headers["Content-Encoding"]) == (b"exi", b"exi")
    assert "unknown encoding" in caplog.text


async def test_a_body_in_tiny_chunks_takes_no_more_memory_than_its_size_allows() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    sent = Raw(head + b"2\r\nab\r\n" * 100_000 + b"0\r\n\r\n")
    with Origin({}, default=sent) as origin:
        async with client() as asking:
            await asking.exchange(call(origin.url("/warm"), is_enough=True, most_bytes=1))
            tracemalloc.start()
            try:
                answer = await asking.exchange(call(origin.url("/")))
                _, most_bytes = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
    assert answer.body == b"ab" * 100_000
    assert most_bytes < 10 * len(answer.body)  # a piece by itself takes more than 20 times its size


async def test_a_page_is_let_go_of_when_it_was_handed_over() -> None:
    page = bytes(2**20)
    with Origin({}, default=Reply(body=page)) as origin:
        async with client() as asking:
            tracemalloc.start()
            try:
                calls = (asking.exchange(call(origin.url("/"))) for _ in range(8))
                pages = await asyncio.gather(*calls)
                assert {len(one.body) for one in pages} == {len(page)}
                del pages
                await asyncio.sleep(0)  # as asyncio holds what it has just handed over
                gc.collect()
                held_bytes, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
    assert held_bytes < len(page)


async def test_headers_are_read_as_they_come(origin: Origin) -> None:
    folded = await fetch(Request(origin.url("/folded")))
    assert folded.headers.getlist("X-A") == [b"1", b"2"]
    assert folded.headers["X-Fold"].split() == [b"one", b"two"]
    chunked = await fetch(Request(origin.url("/chunks")))
    assert (chunked.body, "X-Trailer" in chunked.headers) == (b"page", False)


@pytest.mark.parametrize(
    "signal", [signals.headers_received, signals.bytes_received], ids=["headers", "bytes"]
)
@pytest.mark.parametrize("fail", [True, False])
async def test_a_signal_can_stop_a_download(origin: Origin, signal: object, fail: bool) -> None:
    heard: list[dict[str, Any]] = []

    def stop(**named: Any) -> None:
        heard.append(named)
        raise StopDownload(fail=fail)

    async with handler() as one:
        one.crawler.signals.connect(stop, signal)
        request = Request(origin.url("/"))
        if fail:
            with pytest.raises(StopDownload) as caught:
                await one.download_request(request)
            response: Any = caught.value.response
        else:
            response = await one.download_request(request)
    assert response.flags == ["download_stopped"]
    assert heard[0]["request"] is request
    if signal is signals.headers_received:
        assert (heard[0]["body_length"], response.body) == (len(PAGE), b"")
        assert heard[0]["headers"]["Content-Type"] == b"text/html; charset=utf-8"
    else:
        assert response.body == b"".join(one["data"] for one in heard) == PAGE[: len(response.body)]


async def test_a_page_as_it_went_over_the_wire_is_kept_for_who_asks() -> None:
    body = gzip.compress(PAGE)
    reply = Reply(headers={"Content-Encoding": "gzip", "x-CaSe": " 1"}, body=body)
    with Origin({}, default=reply) as origin:
        request = Request(origin.url("/a?b"), headers={"X-Own": "1"}, meta={"keep_wire": True})
        plain = Request(origin.url("/a?b"))
        async with handler() as one:
            response = await one.download_request(request)
            await one.download_request(plain)
        host = origin.host.encode()
    kept = request.meta["wire"]
    assert isinstance(kept, Wire) and response.body == PAGE and "wire" not in plain.meta
    assert kept.request.startswith(b"GET /a?b HTTP/1.1\r\nHost: " + host + b"\r\n")
    assert b"X-Own: 1\r\n" in kept.request and kept.request.endswith(b"\r\n\r\n")
    assert kept.head.startswith(b"HTTP/1.1 200 -\r\n") and b"X-Case:  1\r\n" in kept.head
    assert (kept.body, kept.address, kept.protocol) == (body, "127.0.0.1", "HTTP/1.1")


@pytest.mark.parametrize("kind", [tuple, list])
@pytest.mark.parametrize("where", ["setting", "meta"])
async def test_the_address_that_a_request_comes_from_can_be_chosen(
    tmp_path: Path, where: str, kind: Callable[[Any], Any]
) -> None:
    class Peers(ThreadedServer):
        async def _converse(
            self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            await reader.readuntil(b"\r\n\r\n")
            name = writer.get_extra_info("peername")[0].encode()
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(name) + name)
            await writer.drain()
            writer.close()

    own = "127.0.0.77"
    with Peers() as server, Peers(tls=Authority(tmp_path).issue("127.0.0.1")) as secure:
        meta = {"bindaddress": kind((own, 0))} if where == "meta" else {}
        settings = {"DOWNLOAD_BIND_ADDRESS": kind((own, 0))} if where == "setting" else {}
        for url in (f"http://{server.host}/", f"https://{secure.host}/"):
            response = await fetch(Request(url, meta=meta), **settings)
            assert response.body == own.encode()


@pytest.mark.parametrize(
    ("head", "is_page"),
    [
        (b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n", True),
        (HEAD + b"Connection: close\r\n\r\n", True),
        (HEAD + b"Content-Length: 9\r\n\r\n", False),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\n", False),
    ],
)
async def test_a_page_that_ends_by_closing_need_not_be_closed_by_the_book_of_tls(
    tmp_path: Path, head: bytes, is_page: bool
) -> None:
    class Abrupt(ThreadedServer):
        async def _converse(
            self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head + b"page")
            await writer.drain()
            await asyncio.sleep(0.05)
            writer.transport.abort()

    with Abrupt(tls=Authority(tmp_path).issue("127.0.0.1")) as server:
        request = Request(f"https://{server.host}/")
        if is_page:
            response = await fetch(request)
            assert (response.body, response.flags) == (b"page", [])
        else:
            with pytest.raises(ResponseDataLossError):
                await fetch(request)


# Proxies


async def test_a_proxy_gets_its_credentials_and_the_origin_does_not(
    origin: Origin, site: Site
) -> None:
    secret = base64.b64encode(b"user:secret")
    headers = {"Proxy-Authorization": b"Basic " + secret}
    with Origin({}, default=site.echo) as proxy:
        async with handler() as one:
            behind = Request("http://far.example/a", meta={"proxy": proxy.url("")}, headers=headers)
            await one.download_request(behind)
            await one.download_request(Request(origin.url("/b"), headers=headers))
            without_scheme = Request("http://far.example/c", meta={"proxy": proxy.host})
            await one.download_request(without_scheme)
    proxied, direct, again = site.asked
    assert (proxied.path, proxied.headers["host"]) == ("http://far.example/a", "far.example")
    assert proxied.headers["proxy-authorization"] == f"Basic {secret.decode()}"
    assert (direct.path, "proxy-authorization" in direct.headers) == ("/b", False)
    assert (again.path, "proxy-authorization" in again.headers) == ("http://far.example/c", False)


@pytest.mark.parametrize("scheme", ["http", "socks5"])
@pytest.mark.parametrize("password", ["secret", "wrong"])
async def test_a_tunnel_leads_to_pages_over_http2(
    tmp_path: Path, scheme: str, password: str
) -> None:
    authority = Authority(tmp_path)
    page = Reply(body=PAGE)
    with (
        H2Origin({}, tls=authority.issue("127.0.0.1"), default=page) as far,
        Tunnel(far.port, "user", "secret") as tunnel,
    ):
        login = b"Basic " + base64.b64encode(f"user:{password}".encode())
        request = Request(
            "https://127.0.0.1/page",
            meta={"proxy": f"{scheme}://{tunnel.host}"},
            headers={"Proxy-Authorization": login},
        )
        trusting = {"CRAWL_CA_FILE": str(authority.certificate)}
        if password == "secret":
            response = await fetch(request, DOWNLOAD_VERIFY_CERTIFICATES=True, **trusting)
            assert (response.body, response.protocol) == (PAGE, "h2")
            assert tunnel.asked_for == [("127.0.0.1", 443)]
        else:
            with pytest.raises((DownloadFailedError, DownloadConnectionRefusedError)):
                await fetch(request, **trusting)
            assert far.requests() == []


async def test_a_name_behind_a_proxy_is_the_proxys_to_resolve() -> None:
    with Tunnel(1, "", "") as tunnel:
        request = Request("https://far.example/", meta={"proxy": f"socks5://{tunnel.host}"})
        with pytest.raises((DownloadFailedError, DownloadConnectionRefusedError)):
            await fetch(request)
        assert tunnel.asked_for == [("far.example", 443)]


@pytest.mark.parametrize("scheme", ["socks5", "SOCKS5", "socks5h"])
async def test_a_connection_through_a_proxy_that_was_closed_costs_no_page(scheme: str) -> None:
    page = Raw(HEAD + b"Content-Length: 4\r\n\r\npage")
    with Origin({}, default=page) as far, Tunnel(far.port, "", "") as tunnel:
        async with client() as asking:
            for _ in range(3):
                asked = call("http://far.example/", proxy=f"{scheme}://{tunnel.host}")
                assert (await asking.exchange(asked)).body == b"page"
                await asyncio.sleep(0.05)
        assert tunnel.asked_for == [("far.example", 80)] * 3


class Logins(Tunnel):
    """Lets everybody in, and keeps who came."""

    def __init__(self, port: int) -> None:
        super().__init__(port, "", "")
        self.seen: list[str] = []

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        fields = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        marker = "Proxy-Authorization: "
        self.seen.append("".join(one[len(marker) :] for one in fields if one.startswith(marker)))
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        return True


async def test_a_tunnel_is_used_again_for_the_same_login_alone(tmp_path: Path) -> None:
    logins = [
        "Basic " + base64.b64encode(text.encode()).decode()
        for text in ("session-1:pw", "session-2:pw", "us%41r:p%3Aw:\u00fc")
    ]
    authority = Authority(tmp_path)
    page = Reply(body=PAGE)
    with (
        H2Origin({}, tls=authority.issue("127.0.0.1"), default=page) as far,
        Logins(far.port) as tunnel,
    ):
        async with handler() as one:
            for login in [*logins, "Bearer a", "Bearer b", ""]:
                headers = {"Proxy-Authorization": login} if login else {}
                for _ in range(1 if login.startswith("Bearer") else 2):
                    proxy = {"proxy": f"http://{tunnel.host}"}
                    request = Request("https://127.0.0.1/", meta=proxy, headers=headers)
                    assert (await one.download_request(request)).body == PAGE
        assert tunnel.seen == [*logins, "Bearer a", "Bearer b", ""]


async def test_a_login_for_a_socks_proxy_may_hold_any_character() -> None:
    page = Raw(HEAD + b"Content-Length: 4\r\n\r\npage")
    with Origin({}, default=page) as far, Tunnel(far.port, "us%41r", "p%3Aw:\u00fc") as tunnel:
        login = b"Basic " + base64.b64encode("us%41r:p%3Aw:\u00fc".encode())
        headers = {"Proxy-Authorization": login}
        proxy = {"proxy": f"socks5://{tunnel.host}"}
        request = Request("http://far.example/", meta=proxy, headers=headers)
        assert (await fetch(request)).body == b"page"
