"""How a crawl on several shards ends: nothing is queued, delayed or leased on any of them.

The first shard is the last to end, for its state is the crawl's: what a seed that came in between,
or a crash, leaves half ended is opened again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from crawlproj.frontier.messages import State
from crawlproj.frontier.shard import Shard

UNSETTLED = ("queued", "delayed", "leased")


async def finish(shards: Sequence[Shard], keeps: Callable[[Shard], Awaitable[bool]]) -> State:
    """End the crawl if nothing is left anywhere; returns its state afterwards. Before it ends
    `keeps` is awaited: nobody would be left to repeat what a failover takes back."""
    first, is_alone = shards[0], len(shards) == 1
    reopened = "" if is_alone else await first.times_reopened()
    at_rest = is_alone or await _is_at_rest(shards)
    for shard in shards if at_rest else ():
        await keeps(shard)
    for shard in reversed(shards):
        state = await shard.finish(at_rest, reopened if shard is first else "")
        if state not in ("finished", "stopped"):
            if shard is not shards[-1]:
                await reopen(shards)
            return state
    return state


async def _is_at_rest(shards: Sequence[Shard]) -> bool:
    """Shards are not counted at one instant, so they are counted twice: a URL can only appear on
    one shard while another still holds its parent, and whatever moved in between shows as a
    difference."""
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
