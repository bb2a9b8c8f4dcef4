"""What became of one URL: looked for in every state that the frontier knows, then in the files.

The frontier does not remember single URLs that are done or filtered, which keeps it small: only
rows on this machine and the seen filter know of them. Changes nothing. Too slow for the crawl
itself, since a long queue is read from end to end.
"""

from __future__ import annotations

import csv
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from crawlproj.discover.quarantine import REASON
from crawlproj.discover.rules import REDIRECTED, Rules
from crawlproj.discover.url_shapes import any_query, pattern_of
from crawlproj.frontier import keys, seen_keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.hosts import levels_of
from crawlproj.frontier.levels import priority_of
from crawlproj.frontier.records import EntrySummary, summarise
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.wire import unpack, unpack_all
from crawlproj.frontier.worker_names import plain
from crawlproj.items import utc_timestamp
from crawlproj.plural import counted
from crawlproj.urls import DROPPED_PARAMS, Url, UrlError, normalise

AT_ONCE = 1000
NEVER, SEEN = "never seen", "seen"

Refusal: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Of a host and a URL of it: the reason for which it must not be fetched; empty if it may be."""


class Trace(NamedTuple):
    """The state of a URL, in a word and in a sentence."""

    state: str
    text: str
    details: dict[str, Any]


async def trace(
    frontier: Frontier,
    text: str,
    folder: Path,
    drop: re.Pattern[str] = DROPPED_PARAMS,
    key_of: Callable[[str], str] = str,
    *,
    refusal_of: Refusal | None = None,
) -> Trace:
    """What became of a URL, as far as it can be known here; `key_of` is what it has in the seen
    filter, `refusal_of` tells what its host's robots.txt says."""
    is_there = bool(await frontier.attach())
    try:
        url = normalise(text, drop=drop)
    except UrlError as error:
        return await _unusable(frontier, text, error, is_there)
    if not is_there:
        return Trace(NEVER, f"there is no crawl {frontier.crawl!r} yet", {})
    return await _usable(frontier, url, folder, key_of(str(url)), refusal_of)


async def _unusable(frontier: Frontier, text: str, error: UrlError, is_there: bool) -> Trace:
    """A link that no page can be behind is in the seen filter as it was written, cut short."""
    details = {"reason": error.reason}
    key = seen_keys.unusable(error.reason, text)
    if is_there and await _is_seen(frontier.shard_of(""), key):
        return Trace("filtered", f"found and not followed: {error}", details)
    return Trace("refused", f"cannot be crawled: {error}", details)


async def _usable(
    frontier: Frontier, url: Url, folder: Path, key: str, refusal_of: Refusal | None
) -> Trace:
    """In the order in which a URL moves, so that one which moves meanwhile is not missed."""
    shard = frontier.shard_of(url.host)
    for look in (_queued, _delayed, _leased, _dead, _set_aside):
        if found := await look(shard, url):
            return found
    if found := _row(folder, url):
        return found
    await frontier.attach()
    rules = Rules.of(frontier.plan)
    if found := await _filtered(frontier, shard, url, rules):
        return found
    if await _is_seen(shard, key):
        return await _taken_in(url, refusal_of)
    name = rules.scope_name(url)
    refusal = rules.refusal(url, 0, await frontier.in_scope((name, REDIRECTED + name)))
    if refusal:
        return Trace(NEVER, f"never seen, and would not be followed: {_rule(rules, refusal)}", {})
    return Trace(NEVER, "never seen: neither a seed nor a link on a page that was fetched", {})


async def _taken_in(url: Url, refusal_of: Refusal | None) -> Trace:
    """It is over with it, and nothing is written of it here."""
    if refusal_of and (reason := await refusal_of(url.host, str(url))):
        text = f"was taken in and not fetched: {_NOT_FETCHED[reason]}"
        return Trace("filtered", text, {"reason": reason})
    return Trace(SEEN, "was taken in; it is done or filtered, with no row on this machine", {})


async def _queued(shard: Shard, url: Url) -> Trace | None:
    record = await shard.client.hget(keys.hosts(shard.crawl, shard.number), url.host)
    levels = levels_of(record) if record else []
    ahead = 0
    for level in reversed(levels):
        key = f"{keys.queue_prefix(shard.crawl, shard.number)}{level}:{url.host}"
        async for entry in _entries(shard.client, key):
            if about := _is(url, entry):
                priority = priority_of(level)
                text = f"queued with priority {priority}, {ahead:,} of its host are before it"
                details = {"priority": priority, "ahead": ahead}
                return Trace("queued", text + _found(about), details | _origin(about))
            ahead += 1
    return None


async def _entries(client: Any, key: str) -> AsyncIterator[bytes]:
    start = 0
    while piece := await client.lrange(key, start, start + AT_ONCE - 1):
        for entry in piece:
            yield entry
        start += len(piece)


async def _delayed(shard: Shard, url: Url) -> Trace | None:
    scan = shard.client.zscan_iter(keys.delayed(shard.crawl, shard.number), count=AT_ONCE)
    async for packed, due_ms in scan:
        host, _, entry, _ = _fields(packed, 4)
        if host == url.host and (about := _is(url, entry)):
            due, tries = utc_timestamp(due_ms / 1000), about.attempts
            text = f"will be tried again at {due}, after {counted(tries, 'failed attempt')}"
            details = {"due_at": due, "attempts": tries}
            return Trace("delayed", text + _found(about), details | _origin(about))
    return None


async def _leased(shard: Shard, url: Url) -> Trace | None:
    for worker in await shard.client.zrange(keys.workers(shard.crawl, shard.number), 0, -1):
        for lease in await shard.held_leases(worker.decode()):
            if lease.host == url.host and (about := _is(url, lease.entry)):
                name = plain(worker.decode())
                text = f"is being fetched by {name}{_found(about)}"
                return Trace("leased", text, {"worker": name} | _origin(about))
    return None


async def _dead(shard: Shard, url: Url) -> Trace | None:
    async for letter in shard.dead():
        if letter.host == url.host and (about := _is(url, letter.entry)):
            at, tries = utc_timestamp(letter.at_ms / 1000), about.attempts
            text = f"given up at {at} after {counted(tries, 'attempt')}: {letter.reason}"
            details = {"reason": letter.reason, "attempts": tries, "failed_at": at}
            return Trace("dead", text + _found(about), details | _origin(about))
    return None


async def _set_aside(shard: Shard, url: Url) -> Trace | None:
    prefix = keys.set_aside_prefix(shard.crawl, shard.number)
    for pattern in (pattern_of(url.path), any_query(url.path)):
        async for packed in _entries(shard.client, f"{prefix}{url.host} {pattern}"):
            with suppress(ValueError, TypeError):
                _, _, entry, _ = unpack(packed)
                if about := _is(url, entry):
                    text = f"set aside with its URL pattern {url.host}{pattern} (scrapy patterns)"
                    details = {"reason": REASON, "pattern": pattern}
                    return Trace("filtered", text + _found(about), details | _origin(about))
    return None


def _row(folder: Path, url: Url) -> Trace | None:
    """The last row that this machine's files have of the URL."""
    found: dict[str, str] = {}
    for part in sorted(folder.glob("pages*.csv")):
        for row in _rows(part):
            if row.get("url") == str(url) and row.get("fetched_at", "") >= found.get(
                "fetched_at", ""
            ):
                found = row
    if not found:
        return None
    text = f"done: status {found['status']} at {found['fetched_at']}, by {found['worker']}"
    if found.get("redirect_to"):
        text += f", redirected to {found['redirect_to']}"
    if found.get("referer"):
        text += f"; found on {found['referer']}"
    return Trace("done", text, found)


def _rows(part: Path) -> Iterator[dict[str, str]]:
    # A worker may be writing its last line, and files may have been edited.
    with suppress(OSError, csv.Error), part.open(newline="", errors="replace") as file:
        yield from csv.DictReader(file)


async def _filtered(frontier: Frontier, shard: Shard, url: Url, rules: Rules) -> Trace | None:
    """A link that was found and not followed is in the seen filter with its reason."""
    for reason in _RULES:
        is_left_out = await _is_seen(shard, seen_keys.left_out(reason, url))
        if is_left_out and not await _is_seen(shard, seen_keys.page(url)):
            text = f"found and not followed: {_rule(rules, reason)}"
            return Trace("filtered", text, {"reason": reason})
    return None


async def _is_seen(shard: Shard, key: str) -> bool:
    shard.replica.grow(len(await shard.layer_items()))
    prefix = keys.seen_prefix(shard.crawl, shard.number)
    for layer, offsets in enumerate(shard.replica.offsets(key)):
        bits = [await shard.client.getbit(f"{prefix}{layer}", offset) for offset in offsets]
        if all(bits):
            return True
    return False


_RULES = {
    "offsite": "not within scope={scope} of the seeds",
    "denied": "it matches deny={deny}",
    "not_allowed": "it does not match allow={allow}",
    "depth": "farther than depth={depth} links from a seed",
    "media": "it ends like media, which CRAWL_MEDIA would follow",
    "trap-depth": "its path has more than CRAWL_TRAP_DEPTH={trap_depth} segments",
    "trap-repeat": "a segment of its path occurs more than CRAWL_TRAP_REPEATS={trap_repeats} times",
    "trap-params": "its query has more than CRAWL_TRAP_PARAMS={trap_params} parameters",
    "pattern": "its URL pattern is set aside (scrapy patterns)",
}
"""What each reason that a link's key begins with means, with the crawl's own values."""


_NOT_FETCHED = {
    "robots": "robots.txt of its host disallows it",
    "robots_unreachable": "robots.txt of its host could not be fetched",
    "address": "its host is at an address that is refused",
}
"""What each reason means that a page has by its host's robots.txt."""


def _rule(rules: Rules, reason: str) -> str:
    patterns = {name: " ".join(getattr(rules, name)) for name in ("allow", "deny")}
    return _RULES[reason].format(**vars(rules) | patterns)


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


def _fields(packed: bytes, count: int) -> list[Any]:
    """Of a record that may be damaged: then nothing in it is looked for."""
    with suppress(ValueError, TypeError, AttributeError):
        host, *rest = unpack_all(packed)
        if len(rest) == count - 1:
            return [host.decode(), *rest]
    return [""] + [b""] * (count - 1)
