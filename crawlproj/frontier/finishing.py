"""How a crawl on several shards ends: nothing is queued, delayed or leased on any of them.

The first shard ends last, because its state is the crawl's. A crawl that is half ended, because of
a crash or of a seed that came in between, is opened again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from crawlproj.frontier import keys
from crawlproj.frontier.messages import State
from crawlproj.frontier.refusals import CrawlWiped
from crawlproj.frontier.shard import Shard

UNSETTLED = ("queued", "delayed", "leased")


async def finish(
    shards: Sequence[Shard], wait_for_replicas: Callable[[Shard], Awaitable[bool]]
) -> State:
    """End the crawl if nothing is left anywhere; returns its state afterwards. Before it ends
    `wait_for_replicas` is awaited: afterwards no worker is left to repeat what a failover loses."""
    first, is_alone = shards[0], len(shards) == 1
    reopened = "" if is_alone else await first.times_reopened()
    at_rest = is_alone or await _is_at_rest(shards)
    for shard in shards if at_rest else ():
        await wait_for_replicas(shard)
    for shard in reversed(shards):
        state = await shard.finish(at_rest, reopened if shard is first else "")
        if state not in ("finished", "stopped"):
            if shard is not shards[-1]:
                await reopen(shards)
            return state
    return state


async def _is_at_rest(shards: Sequence[Shard]) -> bool:
    """Whether nothing is left on any shard. Shards cannot be counted at one instant, so they are
    counted twice. A URL appears on one shard only while its parent is still held on another, so
    that whatever moved in between shows as a difference."""
    before = await counts(shards)
    if any(before.get(name) for name in UNSETTLED):
        return False
    return before == await counts(shards)


async def counts(shards: Sequence[Shard]) -> dict[str, int]:
    """The ledger of the whole crawl."""
    total: dict[str, int] = {}
    for shard in shards:
        for name, value in (await shard.counts()).items():
            total[name] = total.get(name, 0) + value
    return total


async def reopen(shards: Sequence[Shard]) -> None:
    """Go on with a crawl that has finished, or is half ended."""
    for shard in shards:
        await shard.reopen()


async def state(client: Any, crawl: str) -> State:
    """What the crawl's first shard says it is in."""
    found = await client.hget(keys.meta(crawl, 0), "state")
    if found is None:
        raise CrawlWiped("no crawl is open here")
    said: State = found.decode()
    return said
