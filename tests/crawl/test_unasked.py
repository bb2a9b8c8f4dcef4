"""Servers that say more than they were asked, over TLS: no page is taken for another's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from scrapy.exceptions import DownloadFailedError

from tests.servers.clients import call, client
from tests.servers.h2_origin import H2Origin
from tests.servers.origin import Reply
from tests.servers.threaded import ThreadedServer
from tests.servers.tls import Authority

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
GOOD = HEAD + b"Content-Length: 4\r\n\r\ngood"
FORGED = HEAD + b"Content-Length: 6\r\n\r\nforged"
BODY = b"<html>a body that should not be there</html>"


class Talker(ThreadedServer):
    """Answers /first with `first`, each part in a TLS record of its own; and the rest as it should,
    as late as servers far away."""

    def __init__(self, first: Sequence[bytes], **more: Any) -> None:
        super().__init__(**more)
        self._first = first
        self.connections = 0

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while line := await reader.readuntil(b"\r\n\r\n"):
                if line.split()[1] == b"/first":
                    writer.transport.writelines(self._first)
                else:
                    await asyncio.sleep(0.05)
                    writer.write(GOOD)
        writer.transport.abort()


@pytest.mark.parametrize(
    ("method", "first"),
    [
        ("GET", [GOOD, FORGED]),
        ("GET", [b"HTTP/1.1 304 -\r\n\r\n", BODY]),
        ("GET", [b"HTTP/1.1 204 -\r\n\r\n", FORGED]),
        ("HEAD", [HEAD + b"Content-Length: 43\r\n\r\n", BODY]),
        ("HEAD", [HEAD + b"Content-Length: 43\r\n\r\n", FORGED]),
        ("HEAD", [HEAD + b"Content-Length: 43\r\n\r\n" + FORGED]),
        ("HEAD", [HEAD + b"Content-Length: 43\r\n\r\n", FORGED, GOOD]),
    ],
)
async def test_what_a_server_says_unasked_is_no_page(
    tmp_path: Path, method: str, first: list[bytes]
) -> None:
    """It costs an attempt at most, and the host its kept connections."""
    authority = Authority(tmp_path)
    trusting = {"CRAWL_CA_FILE": str(authority.certificate)}
    with Talker(first, tls=authority.issue("127.0.0.1")) as talker:
        url = f"https://{talker.host}"
        async with client(settings=trusting) as asking:
            await asking.exchange(call(f"{url}/first", method=method))
            await asyncio.sleep(0.05)
            found = []
            for _ in range(2):
                with suppress(DownloadFailedError):
                    answer = await asking.exchange(call(f"{url}/second"))
                    found.append((answer.head.status, answer.body))
        assert set(found) == {(200, b"good")}


async def test_a_server_that_is_honest_keeps_its_connection(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    trusting = {"CRAWL_CA_FILE": str(authority.certificate)}
    first = [HEAD + b"Content-Length: 43\r\n\r\n"]
    with Talker(first, tls=authority.issue("127.0.0.1")) as talker:
        url = f"https://{talker.host}/"
        async with client(settings=trusting) as asking:
            await asking.exchange(call(f"{url}first", method="HEAD"))
            for _ in range(20):
                assert (await asking.exchange(call(url))).body == b"good"
        assert talker.connections == 1


async def test_answers_over_a_connection_that_is_shared_are_never_too_early(tmp_path: Path) -> None:
    """Those to its first requests come before it is known to be one."""
    authority = Authority(tmp_path)
    trusting = {"CRAWL_CA_FILE": str(authority.certificate)}
    with H2Origin({}, tls=authority.issue("127.0.0.1"), default=Reply(body=b"good")) as origin:
        for _ in range(10):
            async with client(settings=trusting) as asking:
                calls = [asking.exchange(call(origin.url("/"))) for _ in range(30)]
                assert {one.body for one in await asyncio.gather(*calls)} == {b"good"}
