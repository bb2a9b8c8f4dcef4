"""A client as a worker has it, with a name server of the test's own.

async with client(allowed="loopback") as asking:
    answer = await asking.exchange(call(origin.url("/")))
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from scrapy.settings import Settings

from crawlproj.fetch.addresses import AddressPolicy
from crawlproj.fetch.client import Client
from crawlproj.fetch.exchange import Call
from crawlproj.fetch.resolving import Names, Resolver, SystemResolver
from crawlproj.fetch.tls import Tls


class Answers:
    """A name server that gives these answers, one after the other."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = iter(answers)

    async def resolve(self, host: str) -> Sequence[str]:
        return next(self._answers)

    async def close(self) -> None:
        pass


def free_udp_port(address: str) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def call(url: str, **more: Any) -> Call:
    return Call(url=url, **{"timeout_s": 10.0, **more})


@asynccontextmanager
async def client(
    allowed: str = "loopback",
    resolver: Resolver | None = None,
    seeds: Sequence[str] = (),
    settings: dict[str, Any] | None = None,
    may_send: Callable[[], bool] = lambda: True,
    **more: Any,
) -> AsyncIterator[Client]:
    """A client that remembers no name."""
    policy = AddressPolicy([allowed] if allowed else [], lambda: seeds)
    tls = Tls(Settings({"DOWNLOAD_VERIFY_CERTIFICATES": True, **(settings or {})}))
    names = Names(resolver or SystemResolver(), ttl_s=0, most=0)
    asking = Client(policy, names, tls, may_send=may_send, **more)
    try:
        yield asking
    finally:
        await asking.close()
