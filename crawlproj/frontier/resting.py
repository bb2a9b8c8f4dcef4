"""URLs that rest until they are due to be revisited: what a worker asks of the shards about them.

Each takes about 330 bytes of Redis's memory, with a path of 40 characters, a referer and an ETag of
20 (tests/lua/test_resting.py measures it). A page that rests is *done*; when it is woken, it
is queued.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from crawlproj.frontier import keys
from crawlproj.frontier.readings import refusing_damage
from crawlproj.frontier.records import last_visit
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.visits import Visit, unpack_visit
from crawlproj.frontier.wire import pack, unpack_all, url_digest

NUMBER_BYTES = 8


class Census(NamedTuple):
    """What all workers go by when they say when a page is due (discover/freshness.py)."""

    price: float
    usual_rate: float
    asked_for: float
    """Times the budget: what pages are to ask for, so that all of it is used."""

    def __str__(self) -> str:
        return " ".join(map(repr, self))


class Woken(NamedTuple):
    """What waking brought: how many URLs, the time on the crawl's clock, the last census, whether
    the caller is to take the next, and how much of the budget lies idle, of what can be saved."""

    urls: int
    now_ms: int
    census: Census | None
    is_turn: bool
    saved: float


class Resting(NamedTuple):
    """A URL that rests."""

    number: bytes
    due_ms: float
    priority: int
    visit: Visit

    @property
    def waits(self) -> bool:
        """Whether it was due before, and now waits for its host (lua/wake_resting.lua)."""
        return self.due_ms % 1 != 0


async def wake(shard: Shard, most: int, census_every_ms: int) -> Woken:
    """Wake what is due and the budget has room for."""
    args = [most, census_every_ms]
    urls, now_ms, census, is_turn, saved = await shard.call("wake_resting", args)
    return Woken(urls, now_ms, _census(census), bool(is_turn), saved / 100)


async def sample(shard: Shard, most: int) -> list[Resting]:
    """So many URLs that rest, drawn by lot; all if there are fewer."""
    key = keys.due(shard.crawl, shard.number)
    with refusing_damage("due"):
        drawn = await shard.client.zrandmember(key, most, withscores=True)
        # One after the other, or in pairs: as the server and its client agreed to speak.
        flat = [value for one in drawn for value in (one if isinstance(one, list) else [one])]
        due_ms = {flat[at]: float(flat[at + 1]) for at in range(0, len(flat), 2)}
    return await _read(shard, due_ms)


async def among(shard: Shard, numbers: list[bytes]) -> list[Resting]:
    """Those of these URLs that rest."""
    with refusing_damage("due"):
        found = await shard.client.zmscore(keys.due(shard.crawl, shard.number), numbers)
    known = zip(numbers, found, strict=True)
    return await _read(shard, {number: due for number, due in known if due is not None})


async def count(shard: Shard) -> int:
    """How many rest there."""
    with refusing_damage("due"):
        return int(await shard.client.zcard(keys.due(shard.crawl, shard.number)))


async def reschedule(
    shard: Shard,
    due_ms: Mapping[bytes, float],
    census: Census | None = None,
    visits_per_s: float = 0.0,
) -> None:
    """Let these URLs be due then, and all workers go by a census, if one was taken, with what this
    shard has of the budget by it."""
    times = [value for pair in due_ms.items() for value in pair]
    await shard.call("reschedule", [pack(times), str(census or ""), visits_per_s])


def number_of(host: str, path: str) -> bytes:
    """The number of a GET, as lua/_resting.lua makes it."""
    return url_digest(host, path)[:NUMBER_BYTES]


async def _read(shard: Shard, due_ms: Mapping[bytes, float]) -> list[Resting]:
    numbers = list(due_ms)
    with refusing_damage("resting"):
        key = keys.resting(shard.crawl, shard.number)
        records = await shard.client.hmget(key, numbers) if numbers else []
    found = []
    for number, record in zip(numbers, records, strict=True):
        # What cannot be read is set aside when it is due (lua/wake_resting.lua).
        with suppress(ValueError, TypeError, IndexError):
            visited = last_visit(unpack_all(record)[1])
            if visited and (visit := unpack_visit(visited[1])):
                found.append(Resting(number, due_ms[number], visited[0], visit))
    return found


def _census(text: bytes) -> Census | None:
    with suppress(ValueError):
        price, usual_rate, asked_for = map(float, text.split())
        if 0 < price < 1e300 and 0 < usual_rate < 1e300 and 1 <= asked_for < 10:
            return Census(price, usual_rate, asked_for)
    return None
