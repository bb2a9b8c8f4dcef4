"""Waits, after a push and before whatever relies on it, until replicas of Redis have the push too.

On a Redis Cluster a page and its links may lie on different masters. If the page were settled while
its links are on one server only, the death of that server would lose them for good. So `WAIT` comes
in between; what a failover lost all the same is noticed here, and pushed again.

`WAIT` counts the writes of its own connection only, and a client uses any connection for a command.
So a small write that follows the push (lua/confirm_push.lua) goes through the connection of `WAIT`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import ConnectionPool, Redis, RedisCluster
from redis.exceptions import AskError, ClusterError, MovedError

from crawlproj.errors import CrawlError
from crawlproj.frontier.shard import Shard

logger = logging.getLogger(__name__)


class ReplicasBehind(CrawlError):
    """Too few replicas have acknowledged in time what was pushed."""


class Replication:
    """Waits for `wanted` replicas, each time for up to `timeout_s`.

    None asks for one where it matters and can be had: on a cluster, of a master that has a replica
    attached. On a single Redis replicas receive a push before the settlement that follows it, so
    whatever loses the one loses both.
    """

    def __init__(self, client: Any, wanted: int | None = 0, timeout_s: float = 1.0) -> None:
        self._client = client
        self._wanted = wanted
        self._timeout_ms = round(timeout_s * 1000)
        self._nodes: dict[str, Redis] = {}
        self._alone: set[str] = set()

    @property
    def is_needed(self) -> bool:
        """False where nothing is ever waited for."""
        if self._wanted is None:
            return isinstance(self._client, RedisCluster)
        return self._wanted > 0

    async def wait_for_replicas(self, shard: Shard, worker: str) -> bool:
        """Return when replicas have what the worker has pushed; False if that has been lost
        meanwhile. Raises ReplicasBehind if they do not have it in time."""
        if not self.is_needed:
            return True
        async with self._one_connection(shard) as connection:
            if not await shard.confirm_push(worker, connection):
                return False
            wanted = await self._wanted_now(connection)
            have = int(await connection.wait(wanted, self._timeout_ms)) if wanted else 0
        if have < wanted:
            raise ReplicasBehind(
                f"{have} of {wanted} replica(s) of shard {shard.number} have the latest links "
                f"after {self._timeout_ms / 1000:g} s: their pages stay leased until they have; "
                "see the replicas' logs, or lower FRONTIER_WAIT_REPLICAS"
            )
        return True

    async def close(self) -> None:
        """Let go of the connections."""
        for client in self._nodes.values():
            await client.aclose()

    async def _wanted_now(self, connection: Redis) -> int:
        if self._wanted is not None:
            return self._wanted
        info = await connection.info("replication")
        attached = [one for one in info.values() if _is_online(one)]
        self._mention(_name(connection), alone=not attached)
        return 1 if attached else 0

    def _mention(self, name: str, *, alone: bool) -> None:
        if alone and name not in self._alone:
            self._alone.add(name)
            logger.warning("The Redis at %s has no replica: links there are kept once only", name)
        elif not alone and name in self._alone:
            self._alone.remove(name)
            logger.info("The Redis at %s has a replica again", name)

    @asynccontextmanager
    async def _one_connection(self, shard: Shard) -> AsyncIterator[Redis]:
        """A client of the shard's master that uses one connection throughout."""
        try:
            async with self._master(shard).client() as connection:
                yield connection
        except (MovedError, AskError) as error:
            raise ClusterError(f"shard {shard.number} is moving: {error}") from None

    def _master(self, shard: Shard) -> Redis:
        if not isinstance(self._client, RedisCluster):
            return self._client  # type: ignore[no-any-return]
        node = self._client.get_node_from_key(shard.keys[0])
        assert node is not None
        if node.name not in self._nodes:
            pool = ConnectionPool(connection_class=node.connection_class, **node.connection_kwargs)
            self._nodes[node.name] = Redis.from_pool(pool)
        return self._nodes[node.name]


def _is_online(about: Any) -> bool:
    return isinstance(about, dict) and about.get("state") == "online"


def _name(connection: Redis) -> str:
    options = connection.connection_pool.connection_kwargs
    return f"{options.get('host')}:{options.get('port')}"
