"""HTTP/2, TLS and connections that are kept: judged at the origin, by what it saw."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from itertools import pairwise
from typing import Any

import pytest
from scrapy.exceptions import DownloadFailedError, DownloadTimeoutError, ResponseDataLossError

from crawlproj.errors import AddressRefused, BadCertificate, BadResponse
from crawlproj.fetch import curl_loop, sockets
from crawlproj.fetch.client import Client, can_http3
from crawlproj.fetch.exchange import Answer
from crawlproj.fetch.kept import KeptConnections, Line
from tests.servers.clients import Answers, call, client
from tests.servers.fleet import Fleet
from tests.servers.h2_origin import H2Origin
from tests.servers.h3_origin import h3_origin
from tests.servers.origin import HANG, RESET, Origin, Raw, Reply, Route
from tests.servers.redis import wait_for
from tests.servers.threaded import ThreadedServer
from tests.servers.tls import Authority

PAGE = b"<title>good</title>" * 50
ROUTES: dict[str, Route] = {
    "/reset": RESET,
    "/hang": HANG,
    "/closes": Raw([]),
    "/large": Reply(body=bytes(300_000)),
    "/slow": Reply(body=PAGE, delay_s=0.2),
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def origin(authority: Authority) -> Iterator[H2Origin]:
    tls = authority.issue("127.0.0.1")
    with H2Origin(ROUTES, tls=tls, default=Reply(body=PAGE)) as server:
        yield server


@pytest.fixture
def trusting(authority: Authority) -> dict[str, Any]:
    """Settings of a client that knows the origin's authority."""
    return {"CRAWL_CA_FILE": str(authority.certificate)}


async def get(asking: Client, url: str, **more: Any) -> Answer:
    return await asking.exchange(call(url, **more))


async def test_pages_come_over_http2_where_the_server_has_it(
    origin: H2Origin, trusting: dict[str, Any]
) -> None:
    async with client(settings=trusting) as asking:
        answers = [await get(asking, origin.url(path)) for path in ("/a", "/large", "/b")]
    assert [one.head.protocol for one in answers] == ["h2"] * 3
    assert [len(one.body) for one in answers] == [len(PAGE), 300_000, len(PAGE)]
    assert answers[2].head.address == "127.0.0.1"
    assert origin.protocols() == ["h2"]


async def test_http_1_1_is_spoken_where_the_setting_says_so(
    origin: H2Origin, trusting: dict[str, Any]
) -> None:
    async with client(settings=trusting, http="1.1") as asking:
        answer = await get(asking, origin.url("/a"))
    assert (answer.head.protocol, answer.body) == ("HTTP/1.1", PAGE)
    assert origin.protocols() == ["http/1.1"]


async def test_requests_at_a_time_share_one_connection(
    origin: H2Origin, trusting: dict[str, Any]
) -> None:
    async with client(settings=trusting) as asking:
        answers = await asyncio.gather(*(get(asking, origin.url("/slow")) for _ in range(8)))
    assert {one.body for one in answers} == {PAGE}
    assert origin.protocols() == ["h2"]


async def test_hosts_whose_handshake_does_not_end_keep_nobody_else_waiting(
    origin: H2Origin, trusting: dict[str, Any]
) -> None:
    with Origin({}, default=HANG) as deaf, Origin({}, default=HANG) as mute:
        urls = [one.url("/").replace("http:", "https:") for one in (deaf, mute)]
        async with client(settings=trusting) as asking:
            waiting = [get(asking, url, timeout_s=60) for url in urls for _ in range(8)]
            lost = [asyncio.create_task(one) for one in waiting]
            await asyncio.sleep(0.1)
            pages = (get(asking, origin.url("/"), timeout_s=5) for _ in range(8))
            assert {one.body for one in await asyncio.gather(*pages)} == {PAGE}
            late = get(asking, urls[0], timeout_s=0.2)
            with pytest.raises(DownloadTimeoutError):
                await late
            assert asking.break_off() == len(lost)  # those that wait for a connection, too
            for one in lost:
                with pytest.raises(DownloadFailedError, match="broken off"):
                    await one
    assert origin.protocols() == ["h2"]


async def test_who_waits_for_a_connection_goes_on_when_the_first_is_cancelled(
    origin: H2Origin, trusting: dict[str, Any]
) -> None:
    async with client(settings=trusting) as asking:
        first, *others = [asyncio.create_task(get(asking, origin.url("/"))) for _ in range(4)]
        await asyncio.sleep(0)
        first.cancel()
        assert {one.body for one in await asyncio.gather(*others)} == {PAGE}
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_private_address_behind_a_public_name_is_refused_over_http2(
    origin: H2Origin, trusting: dict[str, Any]
) -> None:
    url = f"https://public.example:{origin.port}/"
    async with client("", Answers(["127.0.0.1"]), settings=trusting) as asking:
        with pytest.raises(AddressRefused, match=r"public\.example: 127\.0\.0\.1 \(loopback\)"):
            await get(asking, url)
    assert origin.protocols() == []


async def test_the_certificate_of_a_server_is_known_with_every_page_of_a_connection(
    origin: H2Origin, trusting: dict[str, Any]
) -> None:
    async with client(settings=trusting) as asking:
        first, second = [await get(asking, origin.url("/")) for _ in range(2)]
    assert first.certificate == second.certificate
    assert "BEGIN CERTIFICATE" in ssl.DER_cert_to_PEM_cert(first.certificate or b"")
    assert len(origin.protocols()) == 1


@pytest.mark.parametrize("settings", [{}, {"CRAWL_CA_FILE": "own"}])
async def test_a_certificate_of_an_unknown_authority_or_another_name_is_refused(
    origin: H2Origin, authority: Authority, settings: dict[str, str]
) -> None:
    if settings:
        settings["CRAWL_CA_FILE"] = str(authority.certificate)
    url = f"https://another.example:{origin.port}/" if settings else origin.url("/")
    async with client(resolver=Answers(["127.0.0.1"]), settings=settings) as asking:
        with pytest.raises(BadCertificate):
            await get(asking, url)
    assert origin.requests() == []


async def test_a_client_certificate_is_shown_to_its_host_alone(
    authority: Authority, trusting: dict[str, Any]
) -> None:
    identity = authority.issue("127.0.0.1")
    identity.verify_mode = ssl.CERT_REQUIRED
    identity.load_verify_locations(authority.certificate)
    own = authority.certificate.parent / "server-127.0.0.1.pem"
    settings = {**trusting, "CRAWL_CLIENT_CERTIFICATES": {"127.0.0.1": str(own)}}
    with H2Origin({}, tls=identity, default=Reply(body=PAGE)) as origin:
        async with client(settings=settings) as asking:
            assert (await get(asking, origin.url("/"))).body == PAGE
        async with client(settings=trusting) as asking:
            with pytest.raises(DownloadFailedError):
                await get(asking, origin.url("/"))


async def test_a_stream_that_is_reset_harms_no_other(
    origin: H2Origin, trusting: dict[str, Any]
) -> None:
    async with client(settings=trusting) as asking:
        slow = asyncio.create_task(get(asking, origin.url("/slow")))
        with pytest.raises((DownloadFailedError, ResponseDataLossError)):
            await get(asking, origin.url("/reset"))
        assert (await slow).body == PAGE
    assert [one.path for one in origin.requests()].count("/reset") == 1


async def test_a_request_that_is_cancelled_ends_at_the_server_too(
    origin: H2Origin, trusting: dict[str, Any]
) -> None:
    async with client(settings=trusting) as asking:
        slow = asyncio.create_task(get(asking, origin.url("/slow")))
        task = asyncio.create_task(get(asking, origin.url("/hang"), timeout_s=99))
        while not origin.times_asked("/hang"):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await slow).body == PAGE
        await asyncio.to_thread(wait_for, lambda: _left(origin, "/hang"), "the end of the stream")


def _left(origin: Origin, path: str) -> bool:
    return any(one.path == path for one in origin.requests())


async def test_a_server_that_is_silent_is_given_up_after_its_own_time(
    origin: H2Origin, trusting: dict[str, Any]
) -> None:
    async with client(settings=trusting, first_byte_s=0.3) as asking:
        with pytest.raises(DownloadTimeoutError, match=r"no answer within 0\.3 s"):
            await get(asking, origin.url("/hang"))
        assert (await get(asking, origin.url("/slow"))).body == PAGE


async def test_a_handshake_that_does_not_end_is_given_up_after_its_own_time() -> None:
    with Origin({}, default=HANG) as deaf:
        async with client(connect_s=0.3) as asking:
            with pytest.raises(DownloadTimeoutError):
                await get(asking, deaf.url("/").replace("http:", "https:"), timeout_s=60)


@pytest.mark.parametrize("http", ["1.1", "2"])
async def test_a_tls_session_is_taken_up_again_after_its_connection_was_closed(
    origin: H2Origin, trusting: dict[str, Any], http: str
) -> None:
    async with client(settings=trusting, http=http) as asking:
        assert (await get(asking, origin.url("/"))).body == PAGE
        with pytest.raises(DownloadFailedError):
            await get(asking, origin.url("/closes"))
        with suppress(DownloadFailedError):  # the word of the close may still be on its way
            await get(asking, origin.url("/"))
        assert (await get(asking, origin.url("/"))).body == PAGE
    assert origin.resumed() == [False, True]


async def test_a_kept_connection_that_was_closed_costs_no_page() -> None:
    """Closed at once, without a word of it before: libcurl would look after a second."""
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage"
    with Origin({}, default=Raw(page)) as origin:
        async with client() as asking:
            for _ in range(5):
                assert (await get(asking, origin.url("/"))).body == b"page"
                await asyncio.sleep(0.05)
        assert len(origin.requests()) == 5


class ClosesOne(ThreadedServer):
    """Keeps the connections that come from one address, and closes the others after an answer."""

    KEPT = "127.0.0.78"

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_kept = True
        with suppress(asyncio.IncompleteReadError):
            while is_kept:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage")
                await writer.drain()
                is_kept = writer.get_extra_info("peername")[0] == self.KEPT
        writer.close()


async def test_connections_from_two_own_addresses_are_told_apart_though_their_ports_are_alike() -> (
    None
):
    with socket.socket() as probe:
        probe.bind(("127.0.0.77", 0))
        own_port = probe.getsockname()[1]
    with ClosesOne() as server:
        async with client() as asking:
            for own in ("127.0.0.77", ClosesOne.KEPT, "127.0.0.77"):
                answer = await get(asking, f"http://{server.host}/", bind=(own, own_port))
                assert answer.body == b"page"
                await asyncio.sleep(0.05)


async def test_a_request_that_is_held_back_as_all_are_broken_off_does_not_go_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage"
    with Origin({}, default=Raw(page)) as origin:
        async with client() as asking:
            await get(asking, origin.url("/"))
            await asyncio.sleep(0.05)
            is_spoilt = KeptConnections.is_spoilt
            broken_off = []

            def spoilt(kept: KeptConnections, line: Line) -> bool:
                loop = asyncio.get_running_loop()
                loop.call_soon(lambda: broken_off.append(asking.break_off()))
                return is_spoilt(kept, line)

            monkeypatch.setattr(KeptConnections, "is_spoilt", spoilt)
            with pytest.raises(DownloadFailedError, match="broken off"):
                await get(asking, origin.url("/"))
        assert (broken_off, len(origin.requests())) == ([1], 1)


async def test_a_server_that_says_goodbye_between_two_requests_costs_no_page(
    authority: Authority, trusting: dict[str, Any]
) -> None:
    """Within the second after which libcurl would hear it."""
    tls = authority.issue("127.0.0.1")
    with H2Origin({}, tls=tls, default=Reply(body=PAGE), leaves_after_s=0.02) as origin:
        async with client(settings=trusting) as asking:
            for number in range(5):
                answer = await get(asking, origin.url("/"))
                assert (answer.head.protocol, answer.body) == ("h2", PAGE)
                while origin.goodbyes <= number:
                    await asyncio.sleep(0.01)
        assert origin.times_asked("/") == 5


async def test_a_page_with_bad_chunks_does_not_make_a_talker_of_its_host(
    authority: Authority, trusting: dict[str, Any]
) -> None:
    bad = Raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
    tls = authority.issue("127.0.0.1")
    with H2Origin({"/bad": bad}, tls=tls, default=Reply(body=PAGE)) as origin:
        async with client(settings=trusting, http="1.1") as asking:
            for path in ("/", "/bad", "/", "/"):
                with suppress(BadResponse) if path == "/bad" else nullcontext():
                    await get(asking, origin.url(path))
        assert origin.protocols() == ["http/1.1"] * 2


async def test_a_server_that_says_goodbye_has_one_more_connection_and_not_one_for_each_page(
    authority: Authority, trusting: dict[str, Any]
) -> None:
    """Of the second in which libcurl would offer the one that is of no use."""
    tls = authority.issue("127.0.0.1")
    with H2Origin({}, tls=tls, default=Reply(body=PAGE), leaves_after_s=0.02) as origin:
        async with client(settings=trusting) as asking:
            await get(asking, origin.url("/"))
            while not origin.goodbyes:
                await asyncio.sleep(0.01)
            origin.leaves_after_s = None
            for _ in range(5):
                assert (await get(asking, origin.url("/"))).body == PAGE
        assert origin.protocols() == ["h2"] * 2


async def test_a_stream_that_is_broken_off_costs_no_connection(
    origin: H2Origin, trusting: dict[str, Any]
) -> None:
    async with client(settings=trusting) as asking:
        for _ in range(3):
            part = await get(asking, origin.url("/large"), most_bytes=1000, is_enough=True)
            assert len(part.body) == 1001
            await asyncio.sleep(0.05)
        assert (await get(asking, origin.url("/"))).body == PAGE
    assert origin.protocols() == ["h2"]


async def test_the_event_loop_can_watch_each_socket_itself(
    origin: H2Origin, trusting: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does where there is no epoll."""
    monkeypatch.setattr(curl_loop, "watch_sockets", sockets.LoopSockets)
    with Origin({}, default=Reply(body=PAGE)) as plain:
        async with client(settings=trusting) as asking:
            urls = [plain.url("/a"), origin.url("/large"), plain.url("/b"), origin.url("/slow")] * 3
            answers = await asyncio.gather(*(get(asking, url) for url in urls))
    assert {len(one.body) for one in answers} == {len(PAGE), 300_000}


async def test_a_callback_of_a_page_may_begin_another_and_end_them_all(
    origin: H2Origin, trusting: dict[str, Any]
) -> None:
    async with client(settings=trusting) as asking:

        def begin(_: object) -> bool:
            another.send(None)  # as far as it goes at once: it is with libcurl then
            return False

        def end(_: object) -> bool:
            assert asking.break_off() == 2
            return False

        another = get(asking, origin.url("/b"))
        assert (await get(asking, origin.url("/a"), on_head=begin)).body == PAGE
        while not origin.times_asked("/b"):
            await asyncio.sleep(0.01)
        another.close()
        hanging = asyncio.create_task(get(asking, origin.url("/hang")))
        with pytest.raises(DownloadFailedError, match="broken off"):
            await get(asking, origin.url("/a"), on_head=end)
        with pytest.raises(DownloadFailedError, match="broken off"):
            await hanging
        assert (await get(asking, origin.url("/a"))).body == PAGE


@pytest.mark.skipif(not can_http3(), reason="this libcurl has no HTTP/3")
async def test_http3_is_spoken_where_the_setting_says_so_to_permitted_addresses_alone(
    authority: Authority, trusting: dict[str, Any]
) -> None:
    async with h3_origin(authority, "127.0.0.1", bytes(200_000)) as far:
        async with client(settings=trusting, http="3") as asking:
            first = await get(asking, far.url("/"))
            more = await asyncio.gather(*(get(asking, far.url("/")) for _ in range(4)))
        assert {(one.head.protocol, len(one.body)) for one in (first, *more)} == {("h3", 200_000)}
        assert (far.connections, first.head.address) == (1, "127.0.0.1")
        url = far.url("/").replace("127.0.0.1", "public.example")
        async with client("", Answers(["127.0.0.1"]), settings=trusting, http="3") as asking:
            with pytest.raises(AddressRefused):
                await get(asking, url)
        assert far.connections == 1


def test_a_crawl_goes_over_http2_at_the_hosts_pace(
    fleet: Fleet, authority: Authority, trusting: dict[str, Any]
) -> None:
    links = "".join(f"<a href=/{number}>x</a>" for number in range(10)).encode()
    routes: dict[str, Route] = {"/": Reply(body=links)}
    with H2Origin(routes, tls=authority.issue("127.0.0.1"), default=Reply(body=PAGE)) as origin:
        fleet.start({"ROBOTSTXT_OBEY": False, **trusting}, seeds=origin.url("/"), delay=0.05)
        assert fleet.wait() == ["finished"]
        assert len(fleet.urls()) == 11
        assert origin.protocols() == ["h2"]
        times = sorted((one.start_s, one.end_s) for one in origin.requests())
    assert all(after - before >= 0.05 for (_, before), (after, _) in pairwise(times))
