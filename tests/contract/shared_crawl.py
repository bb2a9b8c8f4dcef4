"""A crawl's workers as their frontiers, and all of its shards seen from outside."""

from __future__ import annotations

from typing import Any, Self

from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Lease, Opened, Push, Settlement
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.shard import Shard
from crawlproj.server.connection import connect
from tests.lua.helpers import (
    CRAWL,
    State,
    assert_balanced,
    link,
    set_clock,
    shown,
    structures,
)

SHARED = keys.shared_pace(0, "").partition("0")[0]
HOSTS = [f"http://h{number}" for number in range(12)]
"""Enough of them that every one of three shards has some."""


class SharedCrawl:
    """Opens frontiers for workers; `redis` is a blocking client, to look at keys from outside."""

    def __init__(self, url: str, redis: Any, shards: int) -> None:
        self.redis = redis
        self.shards = shards
        self.last: Opened | None = None
        self._url = url
        self._clients: list[Any] = []

    async def join(self, worker: str, *, run: str = "run", **limits: Any) -> Frontier:
        """A frontier of that worker, registered, on a connection of its own."""
        client = await connect(self._url)
        self._clients.append(client)
        frontier = Frontier(client, CRAWL, worker)
        given = Plan(**{"shards": self.shards, "seen_capacity": 3000, **limits})
        self.last = await frontier.open(given, run)
        await frontier.renew(1_000_000, {})
        return frontier

    def states(self) -> list[State]:
        return [structures(self.redis, CRAWL, number) for number in range(self.shards)]

    def check(self) -> None:
        """Every shard is balanced; every key has a shard's tag, or that of what crawls share."""
        for state in self.states():
            assert_balanced(state)
        tags = tuple(keys.tag(CRAWL, number) for number in range(self.shards))
        found = list(self.redis.scan_iter(count=1000))
        known = (*tags, SHARED)
        assert [key for key in found if not key.decode().startswith(known)] == []

    def at(self, minute: float) -> None:
        for number in range(self.shards):
            set_clock(self.redis, minute, CRAWL, number)

    def flush_scripts(self) -> None:
        self.redis.script_flush()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            await client.aclose()


def web(pages_a_host: int = 5, hosts: list[str] = HOSTS) -> list[Push]:
    return [link(host, f"/{number}") for host in hosts for number in range(pages_a_host)]


def hosts_of(frontier: Frontier, shard: int) -> list[str]:
    return [host for host in HOSTS if frontier.shard_of(host).number == shard]


async def crawl_all(frontier: Frontier, batch: int = 7) -> list[str]:
    """Fetch until nothing is left; returns what this worker fetched."""
    fetched = []
    while leases := (await frontier.lease(batch)).leases:
        fetched += [lease.host + shown(lease.entry) for lease in leases]
        await done(frontier, leases)
    return fetched


async def done(frontier: Frontier, leases: list[Lease], **how: Any) -> int:
    """Settle pages; how many came late."""
    late = await frontier.settle(
        (lease.shard, Settlement(lease.token, "done", **how)) for lease in leases
    )
    return len(late)


async def bits_of_redis(shard: Shard) -> dict[int, set[int]]:
    """The bits that are set, by layer, counted without any code of ours."""
    found = {}
    for layer in range(10):
        raw = await shard.client.get(keys.seen_prefix(CRAWL, shard.number) + str(layer))
        digits = "".join(f"{byte:08b}" for byte in raw or b"")
        found[layer] = {at for at, digit in enumerate(digits) if digit == "1"}
    return found


def bits_of_replica(shard: Shard) -> list[set[int]]:
    return [{at for at, bit in enumerate(one.bitarray) if bit} for one in shard.replica.layers]


async def is_within_redis(shard: Shard) -> bool:
    redis = await bits_of_redis(shard)
    return all(bits <= redis[layer] for layer, bits in enumerate(bits_of_replica(shard)))


def is_audited(frontier: Frontier, push: Push) -> bool:
    return bool(frontier.shard_of(push.host).sampled(push.key))
