"""The dead letters of a crawl, on all of its shards: found, tried again, thrown away.

Knows the frontier, what an entry says of itself and the crawl's files, not the command line.
"""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crawlproj.frontier.browsing import START, browse
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import DeadLetter
from crawlproj.frontier.records import summarise
from crawlproj.frontier.request_identity import identity_of
from crawlproj.frontier.shard import Shard
from crawlproj.items import utc_timestamp
from crawlproj.operate.queue_again import even_if_finished
from crawlproj.output.kinds import CSV, FORGOTTEN
from crawlproj.urls import normalise

AT_ONCE = 500
_PORT = re.compile(r":\d+/*$")
COLUMNS = ("url", "reason", "attempts", "depth", "referer", "failed_at", "times")

Move = Callable[[Shard, Sequence[int]], Awaitable[int]]


class Selection(NamedTuple):
    """Which letters: of a reason, of these hosts; None for all."""

    reason: str | None = None
    hosts: frozenset[str] | None = None

    def includes(self, letter: DeadLetter) -> bool:
        """True for a letter that was meant."""
        is_host = self.hosts is None or letter.host in self.hosts
        return is_host and self.reason in (None, letter.reason)


def hosts_named(text: str) -> frozenset[str]:
    """The hosts that a user means by `https://example.com`, by a URL of it, or by `example.com`,
    which goes for both schemes; raises UrlError."""
    urls = [text] if "://" in text else [f"http://{text}", f"https://{text}"]
    return frozenset(normalise(url).host for url in urls)


async def hosts_meant(frontier: Frontier, text: str) -> frozenset[str]:
    """The same in a crawl that is attached: a name without scheme and port also goes for hosts of
    that name at other ports that the crawl knows."""
    named = hosts_named(text)
    if "://" in text or _PORT.search(text):
        return named
    beginnings = tuple(f"{host}:" for host in named)
    found: set[str] = set()
    for shard in frontier.shards:
        cursor, is_last = START, False
        while not is_last:
            piece = await browse(shard, cursor, normalise(f"http://{text}").authority)
            cursor, is_last = piece.cursor, piece.is_last
            found |= {one.name for one, _ in piece.found if one.name.startswith(beginnings)}
    return named | found


async def find(frontier: Frontier, selection: Selection) -> AsyncIterator[DeadLetter]:
    """The letters of a selection, of a frontier that is attached."""
    for shard in frontier.shards:
        async for letter in shard.dead():
            if selection.includes(letter):
                yield letter


def newest_first(letter: DeadLetter) -> tuple[int, str]:
    """What letters are sorted by: when they were given up, those of one moment by their URLs."""
    return -letter.at_ms, summarise(letter.host, letter.entry).url


def row(letter: DeadLetter) -> dict[str, Any]:
    """A letter as people read it."""
    about = summarise(letter.host, letter.entry)
    failed_at = utc_timestamp(letter.at_ms / 1000)
    found = (about.url, letter.reason, about.attempts, about.depth, about.referer)
    values = (*found, failed_at, letter.times)
    return dict(zip(COLUMNS, values, strict=True))


def by_reason(letters: Sequence[DeadLetter]) -> dict[str, int]:
    """How many there are of each reason, most first."""
    return dict(Counter(letter.reason for letter in letters).most_common())


async def retry(frontier: Frontier, letters: Sequence[DeadLetter]) -> int:
    """Queue them again; a finished crawl becomes a stopped one, which the next start resumes."""

    def retry_dead(shard: Shard, numbers: Sequence[int]) -> Awaitable[int]:
        return even_if_finished(frontier, lambda: shard.retry_dead(numbers))

    return await _move(frontier, letters, retry_dead)


async def forget(frontier: Frontier, letters: Sequence[DeadLetter], folder: Path) -> int:
    """Throw them away. The crawl's files are told first, so that merging leaves their rows out."""
    if letters:
        _note_forgotten(letters, folder)
    return await _move(frontier, letters, lambda shard, numbers: shard.forget_dead(numbers))


def _note_forgotten(letters: Sequence[DeadLetter], folder: Path) -> None:
    """A file of its own each time: what was forgotten stays so, whoever merges, and how often."""
    at = utc_timestamp()
    folder.mkdir(parents=True, exist_ok=True)
    stamp = at.translate(str.maketrans("", "", "-:.TZ"))
    part = folder / f"{FORGOTTEN.name}-{stamp}-{os.getpid()}.{CSV}"
    with part.open("w", newline="", encoding="utf-8", errors="replace") as file:
        writer = csv.writer(file)
        writer.writerow(FORGOTTEN.columns)
        for letter in letters:
            url, request = summarise(letter.host, letter.entry).url, identity_of(letter.entry)
            writer.writerow((url, at, request))
        file.flush()
        os.fsync(file.fileno())


async def _move(frontier: Frontier, letters: Sequence[DeadLetter], move: Move) -> int:
    moved = 0
    for shard in frontier.shards:
        numbers = [letter.number for letter in letters if letter.shard == shard.number]
        for start in range(0, len(numbers), AT_ONCE):
            moved += await move(shard, numbers[start : start + AT_ONCE])
    return moved
