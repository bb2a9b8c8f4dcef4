"""An origin that speaks HTTP/2 where its client wants it, and HTTP/1.1 where not, over TLS.

    with H2Origin(routes, tls=authority.issue("127.0.0.1")) as origin:
        crawl(origin.url("/"))
        assert origin.protocols() == ["h2"]

The routes are those of origin.py. Of raw answers only `then` counts: `reset` resets the stream,
`hang` leaves it open, `close` ends the connection.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, RequestReceived, StreamReset
from h2.exceptions import ProtocolError

from tests.servers.origin import CLIENT_LEFT, Origin, Raw, Reply, Route, now_s
from tests.servers.threaded import abort

PIECE_BYTES = 65536
_REFUSED = 8
"""CANCEL, of the error codes of HTTP/2."""


class H2Origin(Origin):
    def __init__(
        self,
        routes: Mapping[str, Route],
        *,
        tls: ssl.SSLContext,
        leaves_after_s: float | None = None,
        **more: Any,
    ) -> None:
        """`leaves_after_s`: how long after an answer it says goodbye, by GOAWAY."""
        self.leaves_after_s = leaves_after_s
        self.goodbyes = 0
        tls.set_alpn_protocols(["h2", "http/1.1"])
        super().__init__(routes, tls=tls, **more)
        self._connections: list[tuple[str, bool]] = []

    def protocols(self) -> list[str]:
        """The protocol of every connection."""
        return [protocol for protocol, _ in self._in_loop(self._connections.copy)]

    def resumed(self) -> list[bool]:
        """Of every connection, whether its handshake took up an earlier one's session."""
        return [is_resumed for _, is_resumed in self._in_loop(self._connections.copy)]

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        over = writer.get_extra_info("ssl_object")
        protocol = over.selected_alpn_protocol() or "http/1.1"
        self._connections.append((protocol, bool(over.session_reused)))
        if protocol != "h2":
            await self.speak_http1(reader, writer)
            return
        # A goodbye is not to wait until the client has acknowledged the page before it.
        over_tcp = writer.get_extra_info("socket")
        over_tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        conversation = _Conversation(self, reader, writer)
        with suppress(ConnectionError, ProtocolError, asyncio.CancelledError):
            await conversation.run()
        abort(writer)


class _Conversation:
    """One connection, with as many streams as the client opens."""

    def __init__(
        self, origin: H2Origin, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._origin = origin
        self._reader = reader
        self._writer = writer
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._answering: dict[int, asyncio.Task[None]] = {}
        self._heard_more = asyncio.Event()

    async def run(self) -> None:
        self._h2.initiate_connection()
        await self._flush()
        try:
            while not self._writer.is_closing() and (data := await self._reader.read(PIECE_BYTES)):
                for event in self._h2.receive_data(data):
                    self._heard(event)
                self._heard_more.set()
                await self._flush()
        finally:
            for task in self._answering.values():
                task.cancel()

    def _heard(self, event: Any) -> None:
        if isinstance(event, RequestReceived):
            task = asyncio.create_task(self._answer(event.stream_id, dict(event.headers)))
            self._answering[event.stream_id] = task
        elif isinstance(event, StreamReset) and event.stream_id in self._answering:
            self._answering[event.stream_id].cancel()
        elif isinstance(event, ConnectionTerminated):
            self._writer.close()

    async def _answer(self, stream: int, fields: dict[str, str]) -> None:
        origin = self._origin
        request = origin.begin(fields[":method"], fields[":path"], fields, b"", now_s())
        answer = origin.answer(request)
        status = CLIENT_LEFT
        try:
            await self._send(stream, answer)
            status = answer.status
        finally:
            origin.note(request, status, self._writer)
        if origin.leaves_after_s is not None:
            await asyncio.sleep(origin.leaves_after_s)
            self._h2.close_connection()
            await self._flush()
            origin.goodbyes += 1

    async def _send(self, stream: int, answer: Reply | Raw) -> None:
        if isinstance(answer, Raw):
            await self._misbehave(stream, answer)
            return
        await asyncio.sleep(answer.delay_s)
        given = {name.lower(): value for name, value in answer.headers.items()}
        headers = {":status": str(answer.status), "content-type": "text/html", **given}
        self._h2.send_headers(stream, list(headers.items()))
        left = memoryview(answer.body)
        while left:
            window = self._h2.local_flow_control_window(stream)
            size = min(window, self._h2.max_outbound_frame_size)
            self._h2.send_data(stream, bytes(left[:size]))
            left = left[size:]
            await self._flush()
            if not size:
                self._heard_more.clear()
                await self._heard_more.wait()
        self._h2.end_stream(stream)
        await self._flush()

    async def _misbehave(self, stream: int, answer: Raw) -> None:
        if answer.then == "hang":
            await asyncio.Event().wait()
        if answer.then == "reset":
            self._h2.reset_stream(stream, _REFUSED)
            await self._flush()
        else:
            self._writer.transport.abort()

    async def _flush(self) -> None:
        if data := self._h2.data_to_send():
            self._writer.write(data)
            await self._writer.drain()
