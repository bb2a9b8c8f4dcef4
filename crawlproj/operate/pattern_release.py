"""The URL patterns that a crawl has set aside, on all of its shards: found, released.

Knows the frontier, not the command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from crawlproj.frontier import pattern_store
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.pattern_store import Pattern
from crawlproj.items import utc_timestamp
from crawlproj.operate.queue_again import even_if_finished
from crawlproj.worker.identity import new_name


async def find(frontier: Frontier, *, released: bool = False) -> list[Pattern]:
    """Those that are set aside, of a frontier that is attached, most URLs first; with those that
    have been released, if wanted."""
    known = await pattern_store.patterns_of(frontier.shards)
    wanted = [one for one in known if released or not one.released_ms]
    return sorted(wanted, key=lambda one: (-one.urls, name(one)))


def name(pattern: Pattern) -> str:
    """As users see it and write it."""
    return pattern.host + pattern.pattern


@dataclass(frozen=True)
class PatternStatus:
    """A pattern as people read it; `kept` are those of its URLs that a release would queue."""

    pattern: str
    why: str
    urls: int
    kept: int
    since: str
    released_at: str | None


async def rows(frontier: Frontier, patterns: Sequence[Pattern]) -> list[PatternStatus]:
    """Patterns as people read them, in their order."""
    kept = await pattern_store.kept(frontier.shards, patterns)
    return [_row(one, urls) for one, urls in zip(patterns, kept, strict=True)]


async def shown(frontier: Frontier) -> tuple[PatternStatus, ...]:
    """Those that are set aside now, most URLs first."""
    return tuple(await rows(frontier, await find(frontier)))


def _row(pattern: Pattern, kept: int) -> PatternStatus:
    return PatternStatus(
        pattern=name(pattern),
        why=pattern.why,
        urls=pattern.urls,
        kept=kept,
        since=utc_timestamp(pattern.since_ms / 1000),
        released_at=utc_timestamp(pattern.released_ms / 1000) if pattern.released_ms else None,
    )


async def release(frontier: Frontier, patterns: Sequence[Pattern]) -> int:
    """Queue what was kept of them; returns how many URLs. A finished crawl becomes a stopped one,
    which the next start resumes."""
    pusher = new_name()
    queued = 0
    for pattern in patterns:
        shard = frontier.shards[pattern.shard]
        queue = partial(pattern_store.release, shard, pattern, pusher)
        queued += await even_if_finished(frontier, queue)
    for shard in frontier.shards:
        await shard.leave(pusher)
    return queued
