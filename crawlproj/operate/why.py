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
from typing import Any, TypeAlias

from crawlproj.discover.rules import UNASKED, Rules
from crawlproj.discover.sitemap_reading import MOST_STEPS
from crawlproj.frontier import seen_keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.whereabouts import is_seen
from crawlproj.operate import ended
from crawlproj.operate.why_states import LOOKS, Trace
from crawlproj.output.kinds import NUMBER, PAGES, WHOLE
from crawlproj.urls import DROPPED_PARAMS, Url, UrlError, normalise

NEVER, SEEN = "never seen", "seen"
_NUMBERS: dict[str, Callable[[str], float]] = {WHOLE: int, NUMBER: float}
_NEVER = (
    "never seen: neither a seed nor a link to follow on a page that was fetched (of links that are "
    "marked nofollow nothing is kept)"
)

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
    is_there = bool(await frontier.attach(only_to_look=True))
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
    if is_there and await is_seen(frontier.shard_of(""), key):
        return Trace("filtered", f"found and not followed: {error}", details)
    return Trace("refused", f"cannot be crawled: {error}", details)


async def _usable(
    frontier: Frontier, url: Url, folder: Path, key: str, refusal_of: Refusal | None
) -> Trace:
    """As the frontier knows it, or else the files, or what can be told from the seen filter."""
    shard = frontier.shard_of(url.host)
    for look in LOOKS:
        if found := await look(shard, url):
            return found
    if found := _with_row(await ended.outcome(shard, url), _row(folder, url)):
        return found
    await frontier.attach(only_to_look=True)
    rules = Rules.of(frontier.plan)
    if found := await _filtered(frontier, shard, url, rules):
        return found
    if await is_seen(shard, key):
        return await _taken_in(shard, url, key, refusal_of)
    name = rules.scope_name(url)
    refusal = rules.refusal(url, 0, await frontier.in_scope((name, UNASKED + name)))
    if refusal:
        return Trace(NEVER, f"never seen, and would not be followed: {_rule(rules, refusal)}", {})
    return Trace(NEVER, _NEVER, {})


async def _taken_in(shard: Shard, url: Url, key: str, refusal_of: Refusal | None) -> Trace:
    """It is over with it, and nothing is written of it here."""
    if refusal_of and (reason := await refusal_of(url.host, str(url))):
        text = f"was taken in and not fetched: {_NOT_FETCHED[reason]}"
        return Trace("filtered", text, {"reason": reason})
    text = (
        "was taken in, and nothing is left to do for it: it was fetched or left out, and no row of "
        "pages on this machine says which"
    )
    doubt = await ended.doubt(shard, key)
    return Trace(SEEN, text + ended.doubt_in_words(doubt), {"false_positive": doubt})


def _with_row(outcome: Trace | None, row: dict[str, Any]) -> Trace | None:
    """What the frontier keeps of a page is short: where it was found and where it leads to, its row
    tells, if it is on this machine and of the same visit."""
    if outcome is None:
        return Trace("done", _done(row) + _around(row), row) if row else None
    if outcome.state != "done" or row.get("worker") != outcome.details["worker"]:
        return outcome
    return Trace("done", outcome.text + _around(row), row | outcome.details)


def _row(folder: Path, url: Url) -> dict[str, Any]:
    """The last row that this machine's files have of the URL; empty if there is none."""
    found: dict[str, str] = {}
    for part in sorted(folder.glob("pages*.csv")):
        for row in _rows(part):
            if row.get("url") == str(url) and row.get("fetched_at", "") >= found.get(
                "fetched_at", ""
            ):
                found = row
    return {name: _as_typed(name, value) for name, value in found.items()}


def _as_typed(column: str, value: str) -> str | float:
    """A cell as what the frontier keeps of a page has it: numbers are no text."""
    as_number = _NUMBERS.get(PAGES.columns.get(column, ""))
    with suppress(ValueError, TypeError):  # files may have been edited
        return as_number(value) if as_number else value
    return value


def _done(row: dict[str, Any]) -> str:
    return f"done: status {row['status']} at {row['fetched_at']}, by {row['worker']}"


def _around(row: dict[str, Any]) -> str:
    """Where a page leads to, and where it was found."""
    to, source = row.get("redirect_to"), row.get("referer")
    return (f", redirected to {to}" if to else "") + (f"; found on {source}" if source else "")


def _rows(part: Path) -> Iterator[dict[str, str]]:
    # A worker may be writing its last line, and files may have been edited.
    with suppress(OSError, csv.Error), part.open(newline="", errors="replace") as file:
        yield from csv.DictReader(file)


async def _filtered(frontier: Frontier, shard: Shard, url: Url, rules: Rules) -> Trace | None:
    """A link that was found and not followed is in the seen filter with its reason."""
    for reason in RULES:
        is_left_out = await is_seen(shard, seen_keys.left_out(reason, url))
        if is_left_out and not await is_seen(shard, seen_keys.page(url)):
            text = f"found and not followed: {_rule(rules, reason)}"
            return Trace("filtered", text, {"reason": reason})
    return None


RULES = {
    "offsite": "not within scope={scope} of the seeds",
    "denied": "it matches deny={deny}",
    "not_allowed": "it does not match allow={allow}",
    "depth": "farther than depth={depth} links from a seed",
    "media": "it ends like media, which CRAWL_MEDIA would follow",
    "trap-depth": "its path has more than CRAWL_TRAP_DEPTH={trap_depth} segments",
    "trap-repeat": "a segment of its path occurs more than CRAWL_TRAP_REPEATS={trap_repeats} times",
    "trap-params": "its query has more than CRAWL_TRAP_PARAMS={trap_params} parameters",
    "trap-sitemap": f"more than {MOST_STEPS} sitemaps, one after the other, led to it",
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
    return RULES[reason].format(**vars(rules) | patterns)
