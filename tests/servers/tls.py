"""TLS in front of a plain Redis, so that `rediss://` is tested whatever the server was built with.

    authority = Authority(tmp_path)
    with TlsProxy(server.port, authority.issue("127.0.0.1")) as proxy:
        connect(f"rediss://127.0.0.1:{proxy.port}?ssl_ca_certs={authority.certificate}")

The bytes inside are passed on as they come; the certificate is the client's to judge.
"""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from crawlproj.server.embedded import LOOPBACK
from tests.servers.threaded import ThreadedServer

PIECE_BYTES = 65536


class Authority:
    """Signs certificates; `certificate` is the file that its clients must trust."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = folder / f"{name}.pem"
        usage = x509.BasicConstraints(ca=True, path_length=0)
        signed = self._sign(self._name, self._key, usage)
        self.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def issue(self, address: str) -> ssl.SSLContext:
        """What a server at that address proves itself with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.issue_file(address))
        return context

    def issue_file(self, address: str) -> Path:
        """The same as a file: the certificate, and its key below."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, address)])
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        file = self._folder / f"server-{address}.pem"
        file.write_bytes(
            self._sign(subject, key, names).public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return file

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, says: x509.ExtensionType
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(says, critical=True)
            .sign(self._key, hashes.SHA256())
        )


class TlsProxy(ThreadedServer):
    """Speaks TLS on a port of its own and passes what it hears to a plain one."""

    def __init__(self, target_port: int, identity: ssl.SSLContext) -> None:
        super().__init__(tls=identity)
        self._target_port = target_port

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            await pass_both_ways(reader, writer, LOOPBACK, self._target_port)


async def pass_both_ways(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str, port: int
) -> None:
    """Between a client and a server, until one of them leaves."""
    inner_reader, inner_writer = await asyncio.open_connection(address, port)
    try:
        await _first(_pass(reader, inner_writer), _pass(inner_reader, writer))
    finally:
        inner_writer.transport.abort()
        writer.transport.abort()


async def _pass(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while piece := await source.read(PIECE_BYTES):
        target.write(piece)
        await target.drain()


async def _first(*ways: Coroutine[Any, Any, None]) -> None:
    """Until one side has left."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
