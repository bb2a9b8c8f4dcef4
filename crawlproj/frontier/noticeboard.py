"""What is written of a crawl as a whole on its first shard, where everybody finds it: how it
stands, for those who have not joined it, who works at it, and what one worker does for all."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.refusals import CrawlDamaged

CLOCK_TICK_MS = 200
"""By so much the last time that a crawl has noted may be behind (lua/_clock.lua)."""

_DRAIN = "drain:"
"""How fields of META begin that ask a worker to leave, with when they did (lua/renew.lua)."""


class CrawlSeen(NamedTuple):
    """What is to be seen of a crawl from outside."""

    epoch: str
    state: str
    waits: bool
    """For its first seed."""
    dismissals: int
    """How often workers of this name's crawls were sent away (lua/set_state.lua)."""
    is_to_leave: bool
    """Whether who looks was taken out of service."""


async def look(frontier: Frontier) -> CrawlSeen:
    """How the crawl stands now; of none, all is empty."""
    names = ("epoch", "state", "waits", "dismissals", _DRAIN + frontier.worker)
    found = [value or b"" for value in await frontier.client.hmget(_meta(frontier), names)]
    epoch, state, waits, dismissals, asked = (value.decode(errors="replace") for value in found)
    return CrawlSeen(epoch, state, waits == "1", int(dismissals or 0), bool(asked))


async def exists(frontier: Frontier) -> bool:
    """Whether Redis has the crawl."""
    return bool(await frontier.client.exists(_meta(frontier)))


async def ran_out_of_time_ms(frontier: Frontier) -> float:
    """When the crawl that is there had lasted as long as it may (minutes), by its own clock, for a
    sentence; 0: it has not."""
    with suppress(ResponseError, ValueError):
        names = ("deadline_ms", "clock_ms", "skew_ms")
        found = await frontier.client.hmget(_meta(frontier), names)
        deadline_ms, clock_ms, skew_ms = (float(value or 0) for value in found)
        return deadline_ms if deadline_ms <= clock_ms + skew_ms + CLOCK_TICK_MS else 0.0
    return 0.0


async def spider_of(client: Any, crawl: str) -> str:
    """The name of the spider that a crawl was begun with; before it is, the crawl's own."""
    with suppress(ResponseError, CrawlDamaged):
        if kept := await client.hget(keys.meta(crawl, 0), "plan"):
            return Plan.decode_known(kept).spider or crawl
    return crawl


async def is_first_to(frontier: Frontier, deed: str) -> bool:
    """Whether it falls to this worker to do something that is done once for the whole crawl."""
    return bool(await frontier.client.hsetnx(_meta(frontier), deed, frontier.worker))


async def ask_to_leave(frontier: Frontier, workers: Iterable[str], now_ms: float) -> None:
    """Take workers, by their marked names, out of service."""
    asked = {_DRAIN + name: now_ms for name in workers}
    await frontier.client.hset(_meta(frontier), mapping=asked)


async def alive(frontier: Frontier) -> int:
    """How many workers are alive, at work or waiting."""
    now_ms = await frontier.shards[0].now_ms()
    return int(await frontier.client.zcount(keys.workers(frontier.crawl, 0), now_ms, "inf"))


def _meta(frontier: Frontier) -> str:
    return keys.meta(frontier.crawl, 0)
