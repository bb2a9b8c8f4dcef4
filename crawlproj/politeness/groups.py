"""Finds the address of a host before its first request, for POLITENESS_GROUP = address.

A lease of a host whose group the frontier does not know is returned with the address, unfetched,
and the host joins those that are at that address already. The first answer counts, for the whole
crawl and all workers: a host whose name changes its mind keeps the pace of its first address. Of
several addresses it is the lowest, so that it does not matter in which order a name server gives
them. A host without an address keeps its own pace, and its requests fail as they would have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Protocol
from urllib.parse import urlsplit

from crawlproj.frontier.outcomes import Attempt, Returned

MOST_AT_ONCE = 256
"""Hosts whose address is being looked for; no page is begun while there are more."""


class Resolver(Protocol):
    """Looks names up (fetch/resolving.py)."""

    async def resolve(self, host: str) -> Sequence[str]:
        """The addresses of a name; raises OSError if it has none."""

    async def close(self) -> None:
        """Let go of what it holds."""


class AddressGroups:
    """Looks for addresses, and ends the leases that were taken for it."""

    def __init__(self, end: Callable[[Attempt], None], resolver: Resolver) -> None:
        self._end = end
        self._resolver = resolver
        self._nowhere: set[str] = set()
        self._searches: set[asyncio.Task[None]] = set()

    @property
    def is_full(self) -> bool:
        return len(self._searches) >= MOST_AT_ONCE

    def seek(self, attempt: Attempt) -> bool:
        """True if the lease has to wait for the address of its host; it is then taken care of."""
        host = attempt.lease.host
        if attempt.lease.group or host in self._nowhere:
            self._nowhere.discard(host)
            return False
        search = asyncio.create_task(self._find(attempt))
        self._searches.add(search)
        search.add_done_callback(self._searches.discard)
        return True

    async def close(self) -> None:
        """Give up; what is still leased goes back with the rest."""
        for search in self._searches:
            search.cancel()
        await self._resolver.close()

    async def _find(self, attempt: Attempt) -> None:
        try:
            group = await self._address(urlsplit(attempt.lease.host).hostname or "")
            attempt.decide(Returned(group=group))
        except (OSError, ValueError):
            self._nowhere.add(attempt.lease.host)
            attempt.decide(Returned())
        self._end(attempt)

    async def _address(self, name: str) -> str:
        found = {ip_address(one) for one in await self._resolver.resolve(name)}
        return str(min(found, key=lambda address: (address.version, int(address))))
