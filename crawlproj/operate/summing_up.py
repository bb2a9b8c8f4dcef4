"""What a worker that leaves writes of the crawl: its summary, and who goes on with it and how."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from redis.exceptions import RedisError

from crawlproj.errors import CrawlError
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.refusals import CrawlWiped
from crawlproj.operate import crawls, status
from crawlproj.output import summary
from crawlproj.output.folder import epoch_of
from crawlproj.output.summary import Summary
from crawlproj.server import connection
from crawlproj.worker.identity import has_died_here

if TYPE_CHECKING:
    from crawlproj.running import RunningCrawl

logger = logging.getLogger(__name__)


class LastWords(NamedTuple):
    """How the crawl stands when a worker leaves."""

    summary: Summary
    is_last: bool
    """Whether this worker tells the whole of it."""
    resume: str
    """What to type to go on with it, where nobody does; else empty."""


async def last_words(crawl: RunningCrawl) -> LastWords:
    """Asked over a connection of its own: the worker's is closed by then."""
    client = await connection.connect(*crawl.redis)
    try:
        frontier = Frontier(client, crawl.frontier.crawl, crawl.frontier.worker)
        now = await status.read(frontier, in_detail=True)
        is_last = await status.is_last_word(frontier, now)
        resume = await _resume(frontier, now)
    finally:
        await client.aclose()
    if now.epoch is None:
        raise CrawlWiped
    if now.balance != 0:
        logger.error("The ledger does not balance: %d", now.balance)
    return LastWords(status.sum_up(now), is_last, resume)


async def _resume(frontier: Frontier, now: status.Status) -> str:
    at_it = [one for one in now.workers if one.alive and not has_died_here(one.host, one.pid)]
    is_left = not at_it and now.state in ("running", "stopped")
    return await crawls.start_command(frontier) if is_left else ""


def write_again(folder: Path, redis: connection.Resolved, crawl: str) -> None:
    """Write the summary once more when all workers of this machine have ended: the last of them may
    have left too early to do so. Not to be called from a loop."""
    with suppress(CrawlError, RedisError, OSError):
        written, resume = asyncio.run(_as_it_stands(redis, crawl))
        if written.epoch == epoch_of(folder):
            summary.write(folder, written, resume)


async def _as_it_stands(redis: connection.Resolved, crawl: str) -> tuple[Summary, str]:
    async with connection.client_of(redis) as client:
        frontier = Frontier(client, crawl, "")
        now = await status.read(frontier, in_detail=True)
        return status.sum_up(now), await _resume(frontier, now)
