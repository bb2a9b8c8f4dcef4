"""Queueing URLs of a crawl once more, whether it runs or has finished.

A finished crawl becomes a stopped one by it, which the next start resumes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.refusals import CrawlFinished


async def even_if_finished(frontier: Frontier, queue: Callable[[], Awaitable[int]]) -> int:
    """Do what queues URLs; returns how many it has queued."""
    while True:
        try:
            return await queue()
        except CrawlFinished:
            # It may have finished just now, so this cannot be asked beforehand.
            await frontier.make_resumable()
