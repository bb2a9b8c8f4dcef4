"""A handmade origin for tests: each path answers exactly what the test says, well-formed or not.

    routes = {
        "/": Reply(body=b"<a href=/a>a</a>"),
        "/a": Raw(b"HTTP/1.1 200 OK\\r\\nContent-Le"),
        "/b": HANG,
        "/c": RESET,
        "/d": lambda request: Reply(status=503 if request.attempt == 1 else 200),
    }
    with Origin(routes) as origin:
        crawl(origin.url("/"))
        assert fetch_counts(origin.requests())[origin.url("/a")] == 3

Runs in a thread of the test. Its log entries are those of the demo web, and so are the helpers.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from crawlproj.demo.protocol import CLIENT_LEFT, now_s
from crawlproj.operate.request_log import Logged
from crawlproj.server.embedded import LOOPBACK
from tests.servers.threaded import ThreadedServer, abort

LARGEST_HEAD_BYTES = 2**20


@dataclass(frozen=True)
class Reply:
    """A well-formed reply; a Content-Length or Content-Type given in `headers` replaces ours."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay_s: float = 0.0

    def encode(self, *, with_body: bool = True) -> bytes:
        ours = {"Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(self.body))}
        given = {name.title(): value for name, value in self.headers.items()}
        lines = [f"HTTP/1.1 {self.status} -"]
        lines += [f"{name}: {value}" for name, value in (ours | given).items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body * with_body


@dataclass(frozen=True)
class Raw:
    """Bytes as they go to the socket, with a pause before each chunk but the first.

    `then`: `close` the connection, `reset` it, `hang` until the client leaves, or `keep` it for
    the next request. `status` is what the log shows.
    """

    chunks: bytes | Iterable[bytes] = b""
    pause_s: float = 0.0
    then: Literal["close", "reset", "hang", "keep"] = "close"
    status: int = 0


HANG = Raw(then="hang")
RESET = Raw(then="reset")


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    """By lower-case name."""
    body: bytes
    attempt: int
    """1 for the first request to this path."""
    start_s: float


Answer: TypeAlias = Reply | Raw
Route: TypeAlias = Answer | Callable[[Request], Answer]


class Origin(ThreadedServer):
    """Serves `routes` by path with query, and `default` elsewhere, on one loopback address."""

    def __init__(
        self,
        routes: Mapping[str, Route],
        *,
        address: str = LOOPBACK,
        port: int = 0,
        default: Route = Reply(status=404),  # noqa: B008 - it is frozen
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(address, port, tls=tls, limit_bytes=LARGEST_HEAD_BYTES)
        self._routes = routes
        self._default = default
        self._log: list[Logged] = []
        self._attempts: Counter[str] = Counter()

    def url(self, path: str = "/") -> str:
        scheme = "https" if self._tls else "http"
        return f"{scheme}://{self.host}{path}"

    def requests(self) -> list[Logged]:
        """Every request whose answer has been handed to the kernel, or whose client left."""
        # By way of the loop, which may just have answered and not have noted it yet.
        return self._in_loop(self._log.copy)

    def times_asked(self, path: str) -> int:
        """How often a path was asked for, answered by now or not."""
        return self._in_loop(lambda: self._attempts[path])

    def begin(
        self, method: str, path: str, headers: dict[str, str], body: bytes, start_s: float
    ) -> Request:
        """A request has come."""
        self._attempts[path] += 1
        return Request(method, path, headers, body, self._attempts[path], start_s)

    def answer(self, request: Request) -> Answer:
        route = self._routes.get(request.path, self._default)
        return route(request) if callable(route) else route

    def note(
        self,
        request: Request,
        status: int,
        writer: asyncio.StreamWriter,
        end_s: float | None = None,
    ) -> None:
        """Log a request that is over: now, unless it was earlier."""
        peer: int = writer.get_extra_info("peername")[1]
        agent = request.headers.get("user-agent", "")
        method, path = request.method, request.path
        times = request.start_s, end_s or now_s()
        self._log.append(Logged(*times, self.host, method, path, status, peer, agent))

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.speak_http1(reader, writer)

    async def speak_http1(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One exchange after the other."""
        # drain() then waits until the kernel has everything, not only most of it.
        writer.transport.set_write_buffer_limits(high=0)
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            abort(writer) if writer.is_closing() else writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; true while the connection is good for another."""
        request = await self._read(reader)
        answer = self.answer(request)
        status, end_s = CLIENT_LEFT, None
        try:
            keeps, end_s = await self._send(answer, request, reader, writer)
            status = answer.status
        finally:
            self.note(request, status, writer, end_s)
        return keeps and request.headers.get("connection", "").lower() != "close"

    async def _read(self, reader: asyncio.StreamReader) -> Request:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        start_s = now_s()
        line, *fields = head.strip().split("\r\n")
        method, path, _ = line.split(" ", 2)
        pairs = (name_value.partition(":") for name_value in fields)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return self.begin(method, path, headers, body, start_s)

    async def _send(
        self,
        answer: Answer,
        request: Request,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> tuple[bool, float | None]:
        """Whether the connection is good for another request, and when the answer was over, if
        that was before now."""
        if isinstance(answer, Reply):
            await asyncio.sleep(answer.delay_s)
            return True, await _hand_over(answer.encode(with_body=request.method != "HEAD"), writer)
        end_s = None
        chunks = [answer.chunks] if isinstance(answer.chunks, bytes) else answer.chunks
        for number, chunk in enumerate(chunks):
            await asyncio.sleep(answer.pause_s if number else 0)
            end_s = await _hand_over(chunk, writer)
        if answer.then == "hang":
            await reader.read()
            end_s = None
        if answer.then == "reset":
            _reset(writer)
        return answer.then == "keep", end_s


async def _hand_over(data: bytes, writer: asyncio.StreamWriter) -> float:
    """Write it, and say when the client can have had the last of it. If the kernel takes all of it
    at once, that may be before this process runs again, so the time before the write counts."""
    before_s = now_s()
    writer.write(data)
    went_at_once = not writer.transport.get_write_buffer_size()
    await writer.drain()  # or hear that the client has left
    return before_s if went_at_once else now_s()


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
