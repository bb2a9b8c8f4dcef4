"""An origin that speaks HTTP/3, over UDP, and says the same to everybody.

async with h3_origin(authority, "127.0.0.1", PAGE) as origin:
    fetch(origin.url("/"))
    assert origin.connections == 1
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aioquic.asyncio import serve
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ProtocolNegotiated, QuicEvent

from tests.servers.clients import free_udp_port
from tests.servers.tls import Authority


@dataclass
class H3Origin:
    host: str
    connections: int = 0

    def url(self, path: str = "/") -> str:
        return f"https://{self.host}{path}"


@asynccontextmanager
async def h3_origin(authority: Authority, address: str, body: bytes) -> AsyncIterator[H3Origin]:
    authority.issue(address)
    proof = authority.certificate.parent / f"server-{address}.pem"
    configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
    configuration.load_cert_chain(proof, proof)
    port = free_udp_port(address)
    origin = H3Origin(f"{address}:{port}")

    class Conversation(QuicConnectionProtocol):
        def __init__(self, quic: QuicConnection, **more: object) -> None:
            super().__init__(quic, **more)  # type: ignore[arg-type]
            self._own = quic
            self._http: H3Connection | None = None

        def quic_event_received(self, event: QuicEvent) -> None:
            if isinstance(event, ProtocolNegotiated):
                self._http = H3Connection(self._own)
                origin.connections += 1
            for heard in self._http.handle_event(event) if self._http else ():
                if isinstance(heard, HeadersReceived):
                    self._answer(heard.stream_id)

        def _answer(self, stream: int) -> None:
            assert self._http is not None
            headers = [(b":status", b"200"), (b"content-type", b"text/html")]
            self._http.send_headers(stream, headers)
            self._http.send_data(stream, body, end_stream=True)
            self.transmit()

    server = await serve(address, port, configuration=configuration, create_protocol=Conversation)
    try:
        yield origin
    finally:
        server.close()
