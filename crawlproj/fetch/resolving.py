"""Names to addresses: looked up by the system in threads, remembered for a while.

libcurl would look names up by itself, in threads that it may have to wait for at the worst moment.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

LOOKUPS = 32
"""Names looked up at a time: a name server that does not answer holds up one of them."""


class Resolver(Protocol):
    async def resolve(self, host: str) -> Sequence[str]:
        """The addresses of a name; raises OSError if it has none."""

    async def close(self) -> None:
        """Let go of what it holds."""


class SystemResolver:
    """Asks the system, in threads of its own: the event loop's are few, and others need them."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(LOOKUPS, thread_name_prefix="resolve")

    async def resolve(self, host: str) -> list[str]:
        look_up = functools.partial(
            socket.getaddrinfo, host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        except UnicodeError as error:
            raise OSError(None, f"{host[:100]!r} is no host name: {error}") from error
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class Names:
    """Remembers what a resolver has said; who asks for a name that is being looked up waits for
    that answer."""

    def __init__(self, resolver: Resolver, ttl_s: float, most: int) -> None:
        self._resolver = resolver
        self._ttl_s = ttl_s
        self._most = most
        self._known: dict[str, tuple[float, Sequence[str]]] = {}
        self._asked: dict[str, asyncio.Task[Sequence[str]]] = {}

    def known(self, name: str) -> Sequence[str] | None:
        """The addresses of a name if they need not be asked for."""
        until_s, addresses = self._known.get(name, (0.0, ()))
        return addresses if until_s > time.monotonic() else None

    async def look_up(self, name: str) -> Sequence[str]:
        """The addresses of a name; raises OSError if it has none."""
        asked = self._asked.get(name)
        if asked is None:
            asked = self._asked[name] = asyncio.create_task(self._ask(name))
            asked.add_done_callback(_heard)
        return await asyncio.shield(asked)

    async def _ask(self, name: str) -> Sequence[str]:
        try:
            found = await self._resolver.resolve(name)
        finally:
            del self._asked[name]
        # libcurl reads no zone (fe80::1%eth0), and refuses all the addresses that come with one.
        addresses = [address for address in found if "%" not in address]
        if found and not addresses:
            raise OSError(None, f"{found[0]!r} cannot be connected to by name")
        if self._ttl_s and self._most:
            self._known.pop(name, None)
            while len(self._known) >= self._most:
                del self._known[next(iter(self._known))]  # the oldest
            self._known[name] = (time.monotonic() + self._ttl_s, addresses)
        return addresses

    async def close(self) -> None:
        for asked in list(self._asked.values()):
            asked.cancel()
        await self._resolver.close()


def _heard(asked: asyncio.Task[Sequence[str]]) -> None:
    """Nobody may be left who waits for it; then a failure is nobody's."""
    if not asked.cancelled():
        asked.exception()
