"""One port for both schemes: a plain and a TLS origin behind it."""

from __future__ import annotations

import asyncio
import socket
import threading
from types import TracebackType
from typing import Self

from tests.servers.origin import Origin

HANDSHAKE = b"\x16"
"""The first byte that a TLS client sends."""


class Door:
    """One port behind which http is one origin and https another."""

    def __init__(self, plain: Origin, secure: Origin) -> None:
        self._plain = plain
        self._secure = secure
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = asyncio.Event()
        self._open = threading.Event()

    def __enter__(self) -> Self:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.host = "{}:{}".format(*self._socket.getsockname())
        self._thread.start()
        self._open.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._let_in, sock=self._socket)
        self._open.set()
        await self._stopped.wait()
        server.close()

    async def _let_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
