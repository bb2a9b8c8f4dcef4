"""Which crawls a Redis has: for commands, so that a misspelt name is told from an empty crawl."""

from __future__ import annotations

from contextlib import suppress

from redis.exceptions import RedisError

from crawlproj.errors import CrawlError
from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.plural import plural

AT_ONCE = 10_000
_ANY = "*"


async def refuse_unknown(frontier: Frontier, seeds_key: str) -> None:
    """Raise CrawlError, with the names there are, if Redis has neither the crawl nor its seeds."""
    crawl, client = frontier.crawl, frontier.client
    if await client.exists(keys.meta(crawl, 0)) or await client.exists(seeds_key):
        return
    names = await _names(frontier)
    there = f"there {plural(len(names), 'is')} {', '.join(names)}"
    begin = "none has been begun: scrapy crawl site -a seeds=https://example.com begins one"
    raise CrawlError(f"{crawl}: no such crawl in this Redis; {there if names else begin}")


async def _names(frontier: Frontier) -> list[str]:
    """Every crawl, by the key that each has; none where the user may not look for them."""
    before, after = keys.meta(_ANY, 0).split(_ANY)
    names: set[str] = set()
    with suppress(RedisError):
        async for key in frontier.client.scan_iter(keys.meta(_ANY, 0), count=AT_ONCE):
            names.add(key.decode(errors="replace").removeprefix(before).removesuffix(after))
    return sorted(names)
