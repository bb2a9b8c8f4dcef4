"""A server of the test's own: an event loop in a thread, for as long as a `with` block lasts."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Self, TypeVar

from crawlproj.server.embedded import LOOPBACK

T = TypeVar("T")


class ThreadedServer(ABC):
    """Listens at `host` (address and port) and has a conversation with each client."""

    def __init__(
        self,
        address: str = LOOPBACK,
        port: int = 0,
        *,
        tls: ssl.SSLContext | None = None,
        limit_bytes: int = 2**16,
    ) -> None:
        self._address = (address, port)
        self._tls = tls
        self._limit_bytes = limit_bytes
        self._stopped = asyncio.Event()
        self._conversations: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._thread = threading.Thread(target=self._run)

    @abstractmethod
    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """With one client. It is cancelled if the server stops meanwhile."""

    def __enter__(self) -> Self:
        self._socket = socket.create_server(self._address, backlog=256)
        address, self.port = self._socket.getsockname()
        self.host = f"{address}:{self.port}"
        self._loop = asyncio.new_event_loop()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def _in_loop(self, do: Callable[[], T]) -> T:
        """Do something where the conversations are, after all that they have done by now."""

        async def run() -> T:
            return do()

        if not self._thread.is_alive():
            return do()
        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(
            self._begin, sock=self._socket, limit=self._limit_bytes, ssl=self._tls
        )
        await self._stopped.wait()
        server.close()
        await asyncio.sleep(0)  # who was accepted at this moment comes in
        left = list(self._conversations.items())
        for conversation, _ in left:
            conversation.cancel()
        await asyncio.gather(*self._conversations, return_exceptions=True)
        for _, writer in left:
            abort(writer)
        await asyncio.sleep(0)  # as the transports close in the loop

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A conversation is known before its first step: one that is cancelled until then has
        nobody else to close its connection."""
        conversation = asyncio.create_task(self._converse(reader, writer))
        self._conversations[conversation] = writer
        conversation.add_done_callback(self._conversations.pop)


def abort(writer: asyncio.StreamWriter) -> None:
    """Close a connection at once. Python 3.11.2 fails at one under TLS that its client has left."""
    with suppress(AttributeError):
        writer.transport.abort()
