"""Bytes that need not be transferred, since pages have not changed: a count beside the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawlproj.frontier import keys

if TYPE_CHECKING:
    from crawlproj.frontier.frontier import Frontier


async def add(frontier: Frontier, count: int) -> None:
    """So many more."""
    await frontier.client.hincrby(keys.counts(frontier.crawl, 0), keys.SAVED, count)
