"""Takes back what dead workers held, and has those URLs reported that were lost too often."""

from __future__ import annotations

import logging

from crawlproj.frontier.frontier import Frontier
from crawlproj.plural import counted
from crawlproj.worker.delivery import RetryUntilAvailable
from crawlproj.worker.hooks import Hooks

logger = logging.getLogger(__name__)


async def reclaim_lost(
    frontier: Frontier, hooks: Hooks, retry_until_available: RetryUntilAvailable
) -> int:
    """Bury every worker that is dead by now; returns how many there were."""
    buried = 0
    while True:
        reclaimed = await retry_until_available(frontier.reclaim)
        if not reclaimed.workers:
            return buried
        buried += reclaimed.workers
        logger.warning(
            "%s fell silent; %d of their URLs are queued again",
            counted(reclaimed.workers, "worker"),
            reclaimed.queued,
        )
        await hooks.report_lost(reclaimed.dead)
