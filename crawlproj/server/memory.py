"""How near Redis is to its memory limit, and what a worker says about it.

Above the watermark new links wait in the workers. The memory that is left is for what cannot wait:
settling, robots.txt, seeds, replication. To look costs one INFO a second at most.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from redis.asyncio import RedisCluster

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
LOG_EVERY_S = 30.0


class Memory(NamedTuple):
    """The memory of a Redis, or of the fullest node of a cluster; no limit is 0."""

    used: int = 0
    limit: int = 0

    @property
    def share(self) -> float:
        """How full it is, from 0 to 1 and a little more."""
        return self.used / self.limit if self.limit else 0.0

    @property
    def advice(self) -> str:
        """The command that gives it twice the room."""
        return f"redis-cli config set maxmemory {-(-self.limit // 2**19)}mb"


async def memory_of(client: Any) -> Memory:
    """Ask the server, or every master of a cluster."""
    if not isinstance(client, RedisCluster):
        return _memory(await client.info("memory"))
    infos = [await client.info("memory", target_nodes=node) for node in client.get_primaries()]
    return max(map(_memory, infos), key=lambda memory: memory.share, default=Memory())


def _memory(info: Mapping[str, Any]) -> Memory:
    return Memory(int(info.get("used_memory", 0)), int(info.get("maxmemory", 0)))


class Pressure:
    """What one worker knows of it."""

    def __init__(self, client: Any, watermark: float) -> None:
        self.memory = Memory()
        self._client = client
        self._watermark = watermark
        self._refused = False
        self._looked_at = self._logged_at = float("-inf")
        self._was_tight = False

    @property
    def is_tight(self) -> bool:
        """True while new links should wait."""
        return self._refused or self.memory.share >= self._watermark

    async def look(self) -> None:
        """Ask Redis, unless that was just done."""
        if time.monotonic() - self._looked_at >= LOOK_EVERY_S:
            self.memory = await memory_of(self._client)
            self._looked_at = time.monotonic()

    def refused(self) -> None:
        """Redis had no room for a push."""
        self._refused = True
        self._looked_at = float("-inf")

    def accepted(self) -> None:
        """Redis took one."""
        self._refused = False

    def log(self, links: int, *, is_stuck: bool) -> None:
        """Say what is happening and what to do: now and then while it lasts, and when it ends."""
        if not self.is_tight or not links:
            if self._was_tight and not self.is_tight:
                logger.warning("Redis has room again: discovery goes on")
                self._was_tight, self._logged_at = False, float("-inf")
            return
        self._was_tight = True
        if time.monotonic() - self._logged_at >= LOG_EVERY_S:
            self._logged_at = time.monotonic()
            logger.warning("%s", sentence(self.memory, links, is_stuck))


def sentence(memory: Memory, links: int, is_stuck: bool = False) -> str:
    """One line about a Redis that is short of memory."""
    then = "and nothing goes on until there is room" if is_stuck else "pages without new ones go on"
    return (
        f"Redis uses {memory.share:.0%} of its maxmemory: {links:,} new link(s) wait, {then}. "
        f"To give it more: {memory.advice}"
    )
