"""What became of one URL: looked for in every state that the frontier knows, then in the files.

The frontier does not remember single URLs that are done or filtered, which keeps it small, unless
FRONTIER_OUTCOMES has it do so: else only rows on this machine and the seen filter know of them.
Changes nothing. Too slow for the crawl itself, since a long queue is read from end to end.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from crawlproj.discover.rules import REDIRECTED, Rules
from crawlproj.frontier import keys, seen_keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.shard import Shard
from crawlproj.operate import ended
from crawlproj.operate.why_states import LOOKS, Trace
from crawlproj.urls import DROPPED_PARAMS, Url, UrlError, normalise

NEVER, SEEN = "never seen", "seen"

Refusal: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Of a host and a URL of it: the reason for which it must not be fetched; empty if it may be."""


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
    """As the frontier knows it, or else the files, or what can be told from the seen filter."""
    shard = frontier.shard_of(url.host)
    for look in (*LOOKS, ended.outcome):
        if found := await look(shard, url):
            return found
    if found := _row(folder, url):
        return found
    await frontier.attach()
    rules = Rules.of(frontier.plan)
    if found := await _filtered(frontier, shard, url, rules):
        return found
    if await _is_seen(shard, key):
        return await _taken_in(shard, url, key, refusal_of)
    name = rules.scope_name(url)
    refusal = rules.refusal(url, 0, await frontier.in_scope((name, REDIRECTED + name)))
    if refusal:
        return Trace(NEVER, f"never seen, and would not be followed: {_rule(rules, refusal)}", {})
    return Trace(NEVER, "never seen: neither a seed nor a link on a page that was fetched", {})


async def _taken_in(shard: Shard, url: Url, key: str, refusal_of: Refusal | None) -> Trace:
    """It is over with it, and nothing is written of it here."""
    if refusal_of and (reason := await refusal_of(url.host, str(url))):
        text = f"was taken in and not fetched: {_NOT_FETCHED[reason]}"
        return Trace("filtered", text, {"reason": reason})
    text = "was taken in; it is done or filtered, with no row on this machine"
    doubt = await ended.doubt(shard, key)
    return Trace(SEEN, text + ended.doubt_in_words(doubt), {"false_positive": doubt})


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
