"""HTTP/1.1 on one connection: GET, HEAD and POST with a length, keep-alive, pipelining.

It knows how requests and replies look on the wire, not what a reply means or where it is from.
Written by hand because the origin shares its cores with the crawler that it serves.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple, TypeAlias, cast

MOST_BYTES_WAITING = 2**20
"""Of requests that are not answered yet; a client that sends more is cut off."""

CLIENT_LEFT = 499
"""Logged, as nginx does, where a client did not wait for the whole reply."""

_WALL_S = time.time() - time.monotonic()


def now_s() -> float:
    """Wall-clock time that never goes back."""
    return _WALL_S + time.monotonic()


class Headers(NamedTuple):
    """The request headers that matter here."""

    user_agent: str = ""
    content_type: str = "application/octet-stream"
    content_length: int = 0
    closes: bool = False
    is_chunked: bool = False


class Request(NamedTuple):
    start_s: float
    method: str
    target: str
    headers: Headers
    body: bytes = b""


MALFORMED = Request(0.0, "?", "?", Headers(closes=True))


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes out as it stands: `head` ends with the blank line, `body` in shared parts."""

    status: int
    head: bytes
    body: tuple[bytes, ...] = ()
    delay_s: float = 0.0


Answer: TypeAlias = Callable[[Request], Reply]
Log: TypeAlias = Callable[[Request, int, float, int], None]
"""Called with the request, its status, when it ended, and the client's port."""


def make_reply(
    status: int,
    headers: dict[str, str],
    body: tuple[bytes, ...] = (),
    delay_s: float = 0.0,
) -> Reply:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {sum(map(len, body))}", "", ""]
    return Reply(status, "\r\n".join(lines).encode("latin-1"), body, delay_s)


@lru_cache(maxsize=512)
def parse_headers(block: str) -> Headers:
    """Raises ValueError for a length that is none. Cached: clients repeat their headers."""
    fields: dict[str, str] = {}
    for line in block.split("\r\n"):
        name, _, value = line.partition(":")
        fields[name.lower()] = value.strip()
    length = int(fields.get("content-length", 0))
    if length < 0:
        raise ValueError(f"Content-Length: {length}")
    return Headers(
        fields.get("user-agent", ""),
        fields.get("content-type", Headers().content_type),
        length,
        fields.get("connection", "").lower() == "close",
        "transfer-encoding" in fields,
    )


def take_request(buffer: bytes, start_s: float) -> tuple[Request | None, bytes]:
    """The first request in the buffer, None while it is incomplete, and what follows it."""
    head, end, rest = buffer.partition(b"\r\n\r\n")
    if not end:
        return None, buffer
    line, _, block = head.decode("latin-1").partition("\r\n")
    try:
        method, target, version = line.split(" ")
        headers = parse_headers(block)
    except ValueError:
        return MALFORMED._replace(start_s=start_s), b""
    if version != "HTTP/1.1" or headers.is_chunked:
        headers = headers._replace(closes=True)
    size = headers.content_length
    if size > len(rest):
        return None, buffer
    return Request(start_s, method, target, headers, rest[:size]), rest[size:]


class Connection(asyncio.Protocol):
    """Answers requests one at a time, in the order in which they came."""

    def __init__(self, answer: Answer, log: Log | None) -> None:
        self._answer = answer
        self._log = log
        self._buffer = b""
        self._received_s = 0.0
        self._pending: tuple[Request, Reply] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_writing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # pause_writing then says that the kernel has not taken everything yet, and
        # resume_writing that it has.
        self._transport.set_write_buffer_limits(high=0)
        self._peer: int = transport.get_extra_info("peername")[1]

    def data_received(self, data: bytes) -> None:
        self._received_s = now_s()
        self._buffer += data
        if len(self._buffer) > MOST_BYTES_WAITING:
            self._transport.abort()
        elif self._pending is None:
            self._serve()

    def pause_writing(self) -> None:
        self._is_writing = True

    def resume_writing(self) -> None:
        self._is_writing = False
        self._finish(now_s())
        self._serve()

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer:
            self._timer.cancel()
        if self._pending and self._log:
            self._log(self._pending[0], CLIENT_LEFT, now_s(), self._peer)
        self._pending = None

    def _serve(self) -> None:
        """Answers what is in the buffer, up to a reply that has to wait."""
        while self._pending is None and self._buffer:
            request, self._buffer = take_request(self._buffer, self._received_s)
            if request is None:
                return
            reply = self._answer(request)
            self._pending = request, reply
            if reply.delay_s:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(reply.delay_s, self._send_and_serve)
            else:
                self._send()

    def _send_and_serve(self) -> None:
        self._timer = None
        self._send()
        self._serve()

    def _send(self) -> None:
        assert self._pending is not None
        request, reply = self._pending
        # Once the kernel has the last byte the client may have it too, and this process may be
        # set aside before it reads the clock: a reply that leaves at once ends as it is sent.
        end_s = now_s()
        if request.method == "HEAD":
            self._transport.write(reply.head)
        else:
            self._transport.write(b"".join((reply.head, *reply.body)))
        if not self._is_writing:
            self._finish(end_s)

    def _finish(self, end_s: float) -> None:
        if self._pending is None:
            return
        request, reply = self._pending
        self._pending = None
        if self._log:
            self._log(request, reply.status, end_s, self._peer)
        if request.headers.closes:
            self._buffer = b""
            self._transport.close()
