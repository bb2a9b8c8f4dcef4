"""Takes back what dead workers held, and has those URLs reported that were lost too often."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from crawlproj.frontier import burying, combined
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Reclaimed
from crawlproj.frontier.shard import Shard
from crawlproj.plural import counted
from crawlproj.worker.delivery import DISK_S
from crawlproj.worker.hooks import Hooks
from crawlproj.worker.outages import RetryUntilAvailable

logger = logging.getLogger(__name__)


class Reclaiming:
    """By one worker. Of what it reports the frontier hears once that is on disk: if this worker
    dies before, another is told of it."""

    def __init__(
        self, frontier: Frontier, hooks: Hooks, retry_until_available: RetryUntilAvailable
    ) -> None:
        self._frontier = frontier
        self._hooks = hooks
        self._retry_until_available = retry_until_available
        # By shard, how many URLs were reported, and how many reports were on disk.
        self._reported: dict[int, int] = {}
        self._kept: dict[int, int] = {}
        self._saving: asyncio.Task[None] | None = None

    async def bury(self) -> int:
        """Bury every worker that is dead by now; returns how many there were. What one shard tells
        is reported before the next is asked, which may be away for long, or for ever. A disk that
        hangs is not waited for: the next heartbeat comes after this."""
        buried = 0
        if saving := self._begin_to_save():
            await asyncio.wait([saving], timeout=DISK_S)
        while True:
            parts = [await self._bury_on(shard) for shard in self._frontier.shards]
            reclaimed = combined.reclaimed(parts)
            if not reclaimed.workers:
                return buried
            buried += reclaimed.workers
            logger.warning(
                "%s fell silent; %d of their URLs are queued again",
                counted(reclaimed.workers, "worker"),
                reclaimed.queued,
            )

    async def acknowledge(self) -> None:
        """Let the frontier know of all that was reported, and bury nobody."""
        unknown = {number for number, count in self._reported.items() if count}
        for _ in range(2):  # what is being saved, and what was reported meanwhile
            if saving := self._begin_to_save():
                await saving
        for number in unknown:
            await self._reclaim(self._frontier.shards[number], most=0)

    async def _bury_on(self, shard: Shard) -> Reclaimed:
        reclaimed = await self._reclaim(shard)
        new = reclaimed.told - self._reported.get(shard.number, 0)
        if new > 0:
            lost = reclaimed.dead[-new:]
            await self._retry_until_available(partial(self._hooks.report_lost, lost))
            self._reported[shard.number] = reclaimed.told
        return reclaimed

    async def _reclaim(self, shard: Shard, most: int = 10) -> Reclaimed:
        kept = self._kept.get(shard.number, 0)
        reclaim = partial(burying.reclaim, shard, self._frontier.worker, kept, most)
        return await self._retry_until_available(reclaim)

    def _begin_to_save(self) -> asyncio.Task[None] | None:
        """Have on disk what was reported, if it can be; None if it is."""
        if self._saving is not None and self._saving.done():
            saved, self._saving = self._saving, None
            saved.result()
        if self._saving is None and self._reported != self._kept:
            self._saving = asyncio.create_task(self._save_reports(dict(self._reported)))
        return self._saving

    async def _save_reports(self, reported: dict[int, int]) -> None:
        try:
            await asyncio.to_thread(self._hooks.flush_rows)
            self._kept = reported
        except OSError as error:
            logger.error("Rows of failures cannot be written (%s)", error)
