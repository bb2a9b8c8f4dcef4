"""What became of a URL that the frontier still knows: a look for each state that it can be in, for
why.py. Each returns None if the URL is not in it."""

from __future__ import annotations

from typing import Any, NamedTuple

from crawlproj.discover.quarantine import SET_ASIDE_REASON
from crawlproj.discover.url_shapes import any_query, pattern_of
from crawlproj.frontier import resting, whereabouts
from crawlproj.frontier.hosts import levels_of
from crawlproj.frontier.levels import priority_of
from crawlproj.frontier.records import EntrySummary, last_visit, summarise
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.worker_names import plain
from crawlproj.items import utc_timestamp
from crawlproj.operate import next_turn
from crawlproj.plural import counted
from crawlproj.urls import Url


class Trace(NamedTuple):
    """The state of a URL, in a word and in a sentence."""

    state: str
    text: str
    details: dict[str, Any]


async def queued(shard: Shard, url: Url) -> Trace | None:
    record = await whereabouts.host_record(shard, url.host)
    levels = levels_of(record) if record else []
    ahead = 0
    for level in reversed(levels):
        async for entry in whereabouts.queued(shard, url.host, level):
            if record and (about := _is(url, entry)):
                visited = last_visit(entry)
                priority = visited[0] if visited else priority_of(level)
                turn = await next_turn.read(shard, url.host, record, ahead)
                text = f"queued with priority {priority}, {ahead:,} of its host are before it{turn}"
                details = {"priority": priority, "ahead": ahead, **turn.details}
                return Trace("queued", text + _found(about), details | _origin(about))
            ahead += 1
    return None


async def delayed(shard: Shard, url: Url) -> Trace | None:
    async for host, entry, due_ms in whereabouts.delayed(shard):
        if host == url.host and (about := _is(url, entry)):
            due, tries = utc_timestamp(due_ms / 1000), about.attempts
            text = f"will be tried again at {due}, after {counted(tries, 'failed attempt')}"
            details = {"due_at": due, "attempts": tries}
            return Trace("delayed", text + _found(about), details | _origin(about))
    return None


async def leased(shard: Shard, url: Url) -> Trace | None:
    for worker in await whereabouts.workers(shard):
        for lease in await shard.held_leases(worker):
            if lease.host == url.host and (about := _is(url, lease.entry)):
                name = plain(worker)
                text = f"is being fetched by {name}{_found(about)}"
                return Trace("leased", text, {"worker": name} | _origin(about))
    return None


async def at_rest(shard: Shard, url: Url) -> Trace | None:
    for found in await resting.among(shard, [resting.number_of(*url)]):
        visited, due = (utc_timestamp(ms / 1000) for ms in (found.visit.at_ms, found.due_ms))
        text = f"done, last fetched at {visited}, and due to be revisited at {due}"
        return Trace("done", text, {"fetched_at": visited, "due_at": due})
    return None


async def dead(shard: Shard, url: Url) -> Trace | None:
    async for letter in shard.dead():
        if letter.host == url.host and (about := _is(url, letter.entry)):
            at, tries = utc_timestamp(letter.at_ms / 1000), about.attempts
            text = f"given up at {at} after {counted(tries, 'attempt')}: {letter.reason}"
            details = {"reason": letter.reason, "attempts": tries, "failed_at": at}
            return Trace("dead", text + _found(about), details | _origin(about))
    return None


async def set_aside(shard: Shard, url: Url) -> Trace | None:
    for pattern in (pattern_of(url.path), any_query(url.path)):
        async for entry in whereabouts.set_aside(shard, url.host, pattern):
            if about := _is(url, entry):
                text = f"set aside with its URL pattern {url.host}{pattern} (scrapy patterns)"
                details = {"reason": SET_ASIDE_REASON, "pattern": pattern}
                return Trace("filtered", text + _found(about), details | _origin(about))
    return None


def _is(url: Url, entry: bytes) -> EntrySummary | None:
    """What an entry says, if it is of this URL."""
    about = summarise(url.host, entry)
    return about if about.url == str(url) else None


def _found(about: EntrySummary) -> str:
    """Where a URL was found, as far as the crawl keeps it (CRAWL_REFERER)."""
    if about.referer:
        return f"; found on {about.referer}"
    return "" if about.depth else "; a seed"


def _origin(about: EntrySummary) -> dict[str, Any]:
    return {"referer": about.referer, "depth": about.depth}


LOOKS = (queued, delayed, leased, dead, set_aside, at_rest)
"""In the order in which a URL moves, so that one which moves meanwhile is not missed."""
