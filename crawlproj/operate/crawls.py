"""Which crawls a Redis has, and how each stands. By this, commands tell several crawls apart, and a
misspelt name from a crawl that is empty."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.exceptions import NoPermissionError, RedisError

from crawlproj.errors import CrawlError
from crawlproj.frontier import crawl_names, noticeboard
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import State
from crawlproj.operate import status
from crawlproj.operate.project_spiders import how_to_begin
from crawlproj.operate.table import table
from crawlproj.plural import plural
from crawlproj.server import connection

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
DAMAGED = "damaged"
"""What is said of a crawl whose records cannot be read, instead of its state."""


class Crawl(NamedTuple):
    """One crawl as `scrapy crawls` lists it. Times are ISO 8601, None where there is none."""

    crawl: str
    spider: str
    state: str
    pages: int
    queued: int
    dead: int
    hosts: int
    workers: int
    started_at: str | None
    finished_at: str | None
    age_s: float | None
    leased: int = 0


async def names(client: Any) -> list[str]:
    """Every crawl, by the key that each has; also those that only have seeds waiting."""
    try:
        return sorted({name async for name in crawl_names.find(client)})
    except NoPermissionError:
        raise CrawlError(
            "This Redis user may not list keys (+scan in its ACL), so crawls cannot be found: give "
            "a name, as in scrapy status site"
        ) from None


async def read(client: Any, name: str) -> Crawl:
    """How one crawl stands."""
    spider = await noticeboard.spider_of(client, name)
    try:
        now = await status.read(Frontier(client, name, ""))
    except CrawlError:
        return Crawl(name, spider, DAMAGED, 0, 0, 0, 0, 0, None, None, None)
    seconds, _ = await client.time()
    return Crawl(
        crawl=name,
        spider=spider if now.epoch else "",  # of one that is yet to begin it is not known
        state=now.state,
        pages=now.done,
        queued=now.queued + now.delayed,
        dead=now.dead,
        hosts=now.hosts,
        workers=now.alive,
        started_at=now.started_at,
        finished_at=now.finished_at,
        age_s=_age_s(now.started_at, seconds),
        leased=now.leased,
    )


def _age_s(started_at: str | None, now_s: int) -> float | None:
    """Seconds since then, by the clock of Redis."""
    if not started_at:
        return None
    started = datetime.fromisoformat(started_at).replace(tzinfo=UTC)
    return max(0.0, round(now_s - started.timestamp(), 1))


async def refuse_unknown(frontier: Frontier, seeds_key: str, settings: BaseSettings) -> None:
    """Raise CrawlError, with the names there are, if Redis has neither the crawl nor its seeds."""
    if await is_known(frontier, seeds_key):
        return
    there = await _names_if_allowed(frontier.client)
    listed = f"there {plural(len(there), 'is')} {', '.join(there)}{nearest(frontier.crawl, there)}"
    if not there:
        listed = f"none has been begun: {how_to_begin(settings)} begins one"
    raise CrawlError(f"{frontier.crawl}: no such crawl in this Redis; {listed}")


async def is_known(frontier: Frontier, seeds_key: str) -> bool:
    """Whether Redis has the crawl, or seeds that wait for it."""
    return await noticeboard.exists(frontier) or bool(await frontier.client.exists(seeds_key))


async def set_state(frontier: Frontier, wanted: State, allowed_from: Sequence[State]) -> str:
    """Set the state that all workers obey, if there is a crawl and it is in one of those; returns
    its state afterwards."""
    if not await frontier.attach():
        return "empty"
    return await frontier.set_state(wanted, allowed_from)


async def start_command(frontier: Frontier) -> str:
    """What to type for a worker of this crawl."""
    spider = await noticeboard.spider_of(frontier.client, frontier.crawl)
    named = "" if spider == frontier.crawl else f" -a crawl={frontier.crawl}"
    return f"scrapy crawl {spider}{named}"


async def next_step(frontier: Frontier, queued: int) -> str:
    """What a user has to do so that what was queued is fetched, to be put behind a sentence."""
    if queued and (await frontier.attach())["state"] == "stopped":
        return f"; go on with {await start_command(frontier)}"
    return ""


def nearest(name: str, known: Collection[str]) -> str:
    """The name that was probably meant, as a question; nothing if none is like it."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


async def _names_if_allowed(client: Any) -> list[str]:
    with suppress(CrawlError, RedisError):
        return await names(client)
    return []


def look(redis: connection.Resolved, crawl: str) -> status.Status | None:
    """How a crawl stands now; None while that cannot be told. Not to be called from a loop."""
    try:
        return asyncio.run(status_of(redis, crawl))
    except (CrawlError, RedisError):
        return None


async def status_of(
    redis: connection.Resolved, crawl: str, *, in_detail: bool = False
) -> status.Status:
    """How a crawl stands, asked over a connection of its own."""
    async with connection.client_of(redis) as client:
        return await status.read(Frontier(client, crawl, ""), in_detail=in_detail)


def as_text(found: Sequence[Crawl]) -> str:
    """The list for a terminal."""
    head = ("crawl", "spider", "state", "pages", "queued", "leased", "dead", "workers", "begun")
    return "\n".join(table(head, [_row(one) for one in found], numbers=range(3, 8)))


def _row(one: Crawl) -> tuple[str, ...]:
    numbers = (one.pages, one.queued, one.leased, one.dead, one.workers)
    return (one.crawl, one.spider, one.state, *(f"{n:,}" for n in numbers), _age(one.age_s))


def _age(age_s: float | None) -> str:
    """In the largest unit of which there is one."""
    if age_s is None:
        return ""
    for unit, seconds in UNITS:
        if age_s >= seconds:
            return f"{age_s / seconds:.0f} {unit} ago"
    return "just now"
