"""A TCP proxy that is a bad network: it can delay, lose replies, cut connections and hang.

    with Proxy(server.port) as proxy:
        client = Redis.from_url(proxy.url)
        proxy.lose_replies(3, to=script("push").sha1)   # they pass, their replies never arrive
        proxy.delay_s = 0.05
        proxy.hang()        # connections stay and carry nothing
        proxy.cut()         # connections are reset, new ones refused
        proxy.heal()
        proxy.lead_to(heir.port)    # new connections go there, those that are open stay

Runs in a thread of the test; every method may be called from the test at any time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from crawlproj.server.embedded import LOOPBACK
from tests.servers.threaded import ThreadedServer

CHUNK_BYTES = 1 << 16


@dataclass(eq=False)
class _Connection:
    """One client's connection and the one that continues it."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    loses_reply: bool = False

    def abort(self) -> None:
        self.client.transport.abort()
        self.server.transport.abort()


@dataclass
class _Losses:
    """Replies still to be lost, and to what."""

    left: int = 0
    pattern: bytes = b""
    happened: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def concerns(self, request: bytes) -> bool:
        with self.lock:
            return self.left > 0 and self.pattern in request

    def take(self) -> bool:
        """True if this reply is to be lost."""
        with self.lock:
            if self.left == 0:
                return False
            self.left -= 1
            self.happened += 1
            return True


class Proxy(ThreadedServer):
    """Passes everything on to a port of this machine, until told otherwise."""

    def __init__(self, target_port: int) -> None:
        super().__init__()
        self.delay_s = 0.0
        """How long each piece waits, in each direction."""
        self._target_port = target_port
        self._losses = _Losses()
        self._connections: set[_Connection] = set()
        self._is_cut = False
        self._flows = asyncio.Event()
        self._flows.set()

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}/0"

    @property
    def lost(self) -> int:
        """Replies lost so far."""
        return self._losses.happened

    def lose_replies(self, count: int, to: str = "") -> None:
        """Let the next requests that contain this text pass, and reset the connection when the
        reply comes."""
        with self._losses.lock:
            self._losses.left, self._losses.pattern = count, to.encode()

    def lead_to(self, target_port: int) -> None:
        """Pass new connections on to another server, as a name or a virtual address does after a
        failover; those that are open stay where they are."""
        self._target_port = target_port

    def hang(self) -> None:
        """Carry nothing, in either direction, and say nothing about it."""
        self._in_loop(self._flows.clear)

    def cut(self) -> None:
        """Reset all connections, and every new one."""
        self._in_loop(self._cut)

    def heal(self) -> None:
        """A good network again; what hung goes on."""
        with self._losses.lock:
            self._losses.left = 0
        self.delay_s = 0.0
        self._in_loop(self._heal)

    # In the thread of the loop

    def _cut(self) -> None:
        self._is_cut = True
        for connection in list(self._connections):
            connection.abort()

    def _heal(self) -> None:
        self._is_cut = False
        self._flows.set()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            return writer.transport.abort()
        try:
            answers, onward = await asyncio.open_connection(LOOPBACK, self._target_port)
        except OSError:
            return writer.transport.abort()
        connection = _Connection(writer, onward)
        self._connections.add(connection)
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(reader, onward, connection, self._note))
                pumps.create_task(self._pump(answers, writer, connection, self._may_answer))
        except* (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(connection)
            connection.abort()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        connection: _Connection,
        passes: Callable[[_Connection, bytes], bool],
    ) -> None:
        while piece := await reader.read(CHUNK_BYTES):
            await asyncio.sleep(self.delay_s)
            await self._flows.wait()
            if not passes(connection, piece):
                break
            writer.write(piece)
            await writer.drain()
        raise ConnectionError("one side has left, and so does the other")

    def _note(self, connection: _Connection, request: bytes) -> bool:
        connection.loses_reply |= self._losses.concerns(request)
        return True

    def _may_answer(self, connection: _Connection, _: bytes) -> bool:
        concerned, connection.loses_reply = connection.loses_reply, False
        return not (concerned and self._losses.take())
