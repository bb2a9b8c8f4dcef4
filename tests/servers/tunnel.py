"""A proxy that tunnels, by CONNECT or SOCKS5, whatever it is asked for to one port of this machine.

    with Tunnel(origin.port, "user", "secret") as tunnel:
        fetch("https://far.example/", proxy=f"socks5://user:secret@{tunnel.host}")
        assert tunnel.asked_for == [("far.example", 443)]

Without a user it asks for none.
"""

from __future__ import annotations

import asyncio
import base64
from contextlib import suppress

from crawlproj.server.embedded import LOOPBACK
from tests.servers.threaded import ThreadedServer
from tests.servers.tls import pass_both_ways

_SOCKS5 = 5
_NO_LOGIN, _LOGIN = 0, 2
_IPV4, _NAME = 1, 3
_GRANTED = b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"


class Tunnel(ThreadedServer):
    def __init__(self, port: int, user: str, password: str) -> None:
        super().__init__()
        self._target = port
        self._user, self._password = user, password
        self.asked_for: list[tuple[str, int]] = []
        """Hosts and ports."""

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            first = await reader.readexactly(1)
            by_socks = first[0] == _SOCKS5
            if await (self._socks(reader, writer) if by_socks else self._connect(reader, writer)):
                await pass_both_ways(reader, writer, LOOPBACK, self._target)
        writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        line, *fields = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        login = base64.b64encode(f"{self._user}:{self._password}".encode()).decode()
        if self._user and f"Proxy-Authorization: Basic {login}" not in fields:
            writer.write(b"HTTP/1.1 407 Login\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return False
        host, _, port = line.split()[1].rpartition(":")
        self.asked_for.append((host, int(port)))
        writer.write(b"HTTP/1.1 200 Connected\r\nX-Of: proxy\r\n\r\n")
        return True

    async def _socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await reader.readexactly((await reader.readexactly(1))[0])
        writer.write(bytes([_SOCKS5, _LOGIN if self._user else _NO_LOGIN]))
        if self._user:
            await reader.readexactly(1)
            given = [await self._text(reader) for _ in range(2)]
            is_right = given == [self._user, self._password]
            writer.write(bytes([1, 0 if is_right else 1]))
            if not is_right:
                await writer.drain()
                return False
        kind = (await reader.readexactly(4))[3]
        numbers = await reader.readexactly(4) if kind == _IPV4 else b""
        host = ".".join(map(str, numbers)) or await self._text(reader)
        self.asked_for.append((host, int.from_bytes(await reader.readexactly(2), "big")))
        writer.write(_GRANTED)
        return True

    async def _text(self, reader: asyncio.StreamReader) -> str:
        return (await reader.readexactly((await reader.readexactly(1))[0])).decode()
