"""Connections: to which addresses, for which requests, how many are kept, by which resolver.

What was judged is what is connected to, so a name that changes its mind in between gains nothing.
Leans, as handler.py does, on parts of aiohttp that are not its public interface.
"""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import BadHttpMessage

from crawlproj.errors import AddressRefused, NoLongerOurs
from crawlproj.fetch.addresses import AddressPolicy

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ClientRequest, ConnectionKey
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

INFORMATIONAL = 16
"""Responses 1xx that may come before the real one."""

IDLE = (64, 4096)
"""Fewest and most connections kept for the next request."""

LOOKUPS = 32
"""Names resolved at a time: a name server that does not answer holds up one of them."""

_to_proxy: ContextVar[bool] = ContextVar("to_proxy", default=False)


class SafeConnector(aiohttp.TCPConnector):
    """Connects to no address that the policy refuses, and for no request that may be another
    worker's by now."""

    def __init__(
        self, policy: AddressPolicy, may_send: Callable[[], bool] = lambda: True, **options: Any
    ) -> None:
        super().__init__(**options)
        self._policy = policy
        self._may_send = may_send
        self._factory = functools.partial(_Protocol, loop=self._loop)  # type: ignore[assignment]
        self._resolver_owner = True
        self._most_idle = most_idle()

    async def connect(
        self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        if not self._may_send():
            connection.release()
            raise NoLongerOurs
        return connection

    def cut(self) -> int:
        """Break off every exchange that is under way; returns how many there were."""
        under_way = [one.transport for one in self._acquired if one.transport is not None]
        for transport in under_way:
            transport.abort()
        return len(under_way)

    async def _resolve_host(
        self, host: str, port: int, traces: Sequence[Trace] | None = None
    ) -> list[ResolveResult]:
        """Each address that may be contacted; what is returned is what is connected to."""
        found = await super()._resolve_host(host, port, traces)
        if _to_proxy.get():
            return found
        addresses = {one["host"] for one in found}
        refused = self._policy.refusals(host, addresses, port)
        if len(refused) == len(addresses):
            raise AddressRefused(host, refused)
        return [one for one in found if one["host"] not in refused]

    async def _create_proxy_connection(
        self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> tuple[asyncio.BaseTransport, ResponseHandler]:
        host = req.url.raw_host or ""
        if aiohttp.helpers.is_ip_address(host) and (reason := self._policy.refusal(host, host)):
            raise AddressRefused(host, {host: reason})
        token = _to_proxy.set(True)
        try:
            return await super()._create_proxy_connection(req, traces, timeout)
        finally:
            _to_proxy.reset(token)

    def _release(
        self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False
    ) -> None:
        hosts, kept = len(self._conns), len(self._conns.get(key, ()))
        should_close = should_close or not may_keep(hosts, kept, self._most_idle)
        super()._release(key, protocol, should_close=should_close)


def may_keep(hosts: int, kept: int, most: int) -> bool:
    """Whether one more connection may rest beside those `kept` for its host, one of so many: each
    has its share, so that few hosts with many connections take no more files than many."""
    return kept < max(1, most // hosts) if kept else hosts < most


def most_idle() -> int:
    """A quarter of the files that may be open: a broad crawl must not run out of them, and one of
    a thousand hosts should not connect anew for each page."""
    try:
        import resource
    except ImportError:  # not on this system
        return IDLE[0]
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    fewest, most = IDLE
    return most if allowed == resource.RLIM_INFINITY else min(most, max(fewest, allowed // 4))


class _Protocol(ResponseHandler):
    """One connection, and what may come over it before a response."""

    _informational = 0

    async def read(self) -> Any:
        message, payload = await super().read()
        if message.code < 100 or message.code == 101:
            raise BadHttpMessage(f"status {message.code}, which nobody asked for")
        self._informational = self._informational + 1 if message.code < 200 else 0
        if self._informational > INFORMATIONAL:
            raise BadHttpMessage(f"more than {INFORMATIONAL} informational responses")
        return message, payload

    def is_connected(self) -> bool:
        """False also for a kept connection over which a response came that nobody asked for:
        it would be taken for the answer to the next request."""
        return super().is_connected() and not self._buffer


class SystemResolver(AbstractResolver):
    """Asks the system, in threads of its own: the event loop's are few, and others need them."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(LOOKUPS, thread_name_prefix="resolve")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        look_up = functools.partial(
            socket.getaddrinfo,
            host,
            port,
            family=family,
            type=socket.SOCK_STREAM,
            flags=socket.AI_ADDRCONFIG,
        )
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        except UnicodeError as error:
            raise OSError(None, f"{host[:100]!r} is no host name: {error}") from error
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=one_family,
                proto=proto,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for one_family, _, proto, _, address in found
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
