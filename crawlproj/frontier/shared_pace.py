"""One pace of a host for all crawls on one Redis (POLITENESS_SHARED).

Within a crawl the frontier keeps the pace. Between crawls, which know nothing of each other, a
request needs a turn at its host as well, under a key that all of them share. It is asked for with
the lease and ended when the lease is settled: two calls for each batch of leases, or up to `PARTS`
times as many on a Redis Cluster. Who has no turn waits, and is next.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from zlib import crc32

from redis.asyncio import RedisCluster

from crawlproj.frontier import combined, keys
from crawlproj.frontier.messages import Lease, LeaseName, Settlement
from crawlproj.frontier.scripts import script

PARTS = 16
"""Slots of a Redis Cluster that hosts are spread over."""

UNTIL_RENEWED_MS = 20_000
"""How long turns last before the first heartbeat has said it."""

OTHER_CRAWL = "other_crawl"
"""Why a host is left alone that another crawl asks."""


class Turn(NamedTuple):
    """What a lease asks for: a host, or the group with which it keeps one pace, its usual pause,
    and how many connections it may have."""

    lease: Lease
    keeper: str
    pause_ms: int
    connections: int


class SharedPace:
    """The turns of one worker."""

    def __init__(self, client: Any, crawl: str, worker: str) -> None:
        self._client = client
        self._crawl = crawl
        self._worker = worker
        self._parts = PARTS if isinstance(client, RedisCluster) else 1
        self._lasts_ms = UNTIL_RENEWED_MS
        self._turns: dict[LeaseName, Turn] = {}

    @property
    def names(self) -> set[LeaseName]:
        """Leases that have a turn."""
        return set(self._turns)

    def forget(self, lost: Iterable[LeaseName]) -> None:
        """Others have these leases: their turns end when they are not renewed."""
        for name in lost:
            self._turns.pop(name, None)

    async def take(self, wanted: Iterable[Turn]) -> dict[LeaseName, int]:
        """Take turns; returns which leases have none, and how many ms they have to wait."""
        waits: dict[LeaseName, int] = {}
        for turns, found in await combined.all_of(map(self._take, self._by_part(wanted))):
            for turn, wait_ms in zip(turns, found, strict=True):
                name = turn.lease.name
                if wait_ms:
                    waits[name] = wait_ms
                else:
                    self._turns[name] = turn
        return waits

    async def take_or_return(self, wanted: Iterable[Turn]) -> list[tuple[int, Settlement]]:
        """Take turns; returns how the leases end that have none: their hosts wait."""
        return [
            (shard, Settlement(token, "return", hold_ms=wait_ms, hold_reason=OTHER_CRAWL))
            for (shard, token), wait_ms in (await self.take(wanted)).items()
        ]

    async def renew(self, lasts_ms: int) -> bool:
        """Keep what is taken for so long; False if another crawl has some of it by now, since
        nothing was heard of this worker for longer than that."""
        self._lasts_ms = lasts_ms
        return not await self.take(list(self._turns.values()))

    async def end(self, settled: Iterable[tuple[int, Settlement]]) -> None:
        """The requests of these leases have ended, or were not made."""
        by_name = {(shard, one.token): one for shard, one in settled}
        ended = [turn for name, turn in self._turns.items() if name in by_name]
        await combined.all_of(self._end(part, by_name) for part in self._by_part(ended))
        self.forget(by_name)

    def _by_part(self, turns: Iterable[Turn]) -> list[list[Turn]]:
        parts: dict[int, list[Turn]] = {}
        for turn in turns:
            parts.setdefault(self._part(turn), []).append(turn)
        return list(parts.values())

    def _part(self, turn: Turn) -> int:
        return crc32(turn.keeper.encode()) % self._parts

    def _keys(self, turns: list[Turn]) -> list[str]:
        return [keys.shared_pace(self._part(turn), turn.keeper) for turn in turns]

    async def _take(self, turns: list[Turn]) -> tuple[list[Turn], list[int]]:
        args: list[Any] = [self._crawl, self._lasts_ms]
        for turn in turns:
            args += (self._name(turn.lease), turn.pause_ms, turn.connections)
        return turns, await script("take_turns")(self._client, self._keys(turns), args)

    async def _end(self, turns: list[Turn], by_name: dict[LeaseName, Settlement]) -> None:
        args: list[Any] = []
        for turn in turns:
            how = by_name[turn.lease.name]
            hold_ms = 0 if how.verdict == "return" else how.hold_ms
            args += (self._name(turn.lease), how.ended_ago_ms, how.pause_ms, hold_ms)
        await script("end_turns")(self._client, self._keys(turns), args)

    def _name(self, lease: Lease) -> str:
        return f"{self._crawl} {self._worker} {lease.shard} {lease.token}"
