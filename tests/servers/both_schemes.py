"""One port for both schemes: a plain and a TLS origin behind it."""

from __future__ import annotations

import asyncio

from tests.servers.origin import Origin
from tests.servers.threaded import ThreadedServer

HANDSHAKE = b"\x16"
"""The first byte that a TLS client sends."""


class BothSchemes(ThreadedServer):
    """One port behind which http is one origin and https another."""

    def __init__(self, plain: Origin, secure: Origin) -> None:
        super().__init__()
        self._plain = plain
        self._secure = secure

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first = await reader.read(1)
            origin = self._secure if first == HANDSHAKE else self._plain
            inside, outward = await asyncio.open_connection(*origin.host.split(":"))
            outward.write(first)
            await asyncio.gather(_relay(reader, outward), _relay(inside, writer))
        except (ConnectionError, asyncio.CancelledError):
            writer.transport.abort()


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()
