"""The dead letters of a crawl, on all of its shards: found, tried again, thrown away.

Knows the frontier and what an entry says of itself, not the command line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Letter
from crawlproj.frontier.records import glance
from crawlproj.frontier.refusals import CrawlFinished
from crawlproj.frontier.shard import Shard
from crawlproj.items import utc_timestamp

AT_ONCE = 500
COLUMNS = ("url", "reason", "attempts", "depth", "referer", "failed_at")

Move = Callable[[Shard, Sequence[int]], Awaitable[int]]


class Wanted(NamedTuple):
    """Which letters; a host is given as `https://example.com` or without its scheme."""

    reason: str | None = None
    host: str | None = None

    def includes(self, letter: Letter) -> bool:
        """True for a letter that was meant."""
        hosts = (letter.host, letter.host.partition("://")[2])
        return self.reason in (None, letter.reason) and (self.host is None or self.host in hosts)


async def find(frontier: Frontier, wanted: Wanted) -> AsyncIterator[Letter]:
    """The letters that are wanted, of a frontier that is attached."""
    for shard in frontier.shards:
        async for letter in shard.dead():
            if wanted.includes(letter):
                yield letter


def row(letter: Letter) -> dict[str, Any]:
    """A letter as people read it."""
    about = glance(letter.host, letter.entry)
    failed_at = utc_timestamp(letter.at_ms / 1000)
    values = (about.url, letter.reason, about.attempts, about.depth, about.referer, failed_at)
    return dict(zip(COLUMNS, values, strict=True))


def by_reason(letters: Sequence[Letter]) -> dict[str, int]:
    """How many there are of each reason, most first."""
    return dict(Counter(letter.reason for letter in letters).most_common())


async def retry(frontier: Frontier, letters: Sequence[Letter]) -> int:
    """Queue them again; a finished crawl becomes a stopped one, which the next start resumes."""
    return await _move(frontier, letters, lambda shard, tokens: _revive(frontier, shard, tokens))


async def forget(frontier: Frontier, letters: Sequence[Letter]) -> int:
    """Throw them away."""
    return await _move(frontier, letters, lambda shard, tokens: shard.forget(tokens))


async def _move(frontier: Frontier, letters: Sequence[Letter], move: Move) -> int:
    moved = 0
    for shard in frontier.shards:
        tokens = [letter.token for letter in letters if letter.shard == shard.number]
        for start in range(0, len(tokens), AT_ONCE):
            moved += await move(shard, tokens[start : start + AT_ONCE])
    return moved


async def _revive(frontier: Frontier, shard: Shard, tokens: Sequence[int]) -> int:
    while True:
        try:
            return await shard.revive(tokens)
        except CrawlFinished:
            # It may have finished just now, so this cannot be asked beforehand.
            await frontier.control("stopped", ["finished"])
