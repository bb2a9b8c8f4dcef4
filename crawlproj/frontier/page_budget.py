"""The page budget of a crawl, which each shard has a share of, moved to where it is needed.

A shard may have pages that it cannot use while another has more URLs than pages. What is moved is
offered by one and taken by the other in steps that can be repeated after a crash
(lua/offer_pages.lua, lua/take_pages.lua), so that the shares always add up to the budget.
"""

from __future__ import annotations

from collections.abc import Sequence

from crawlproj.frontier.shard import Shard


async def balance(shards: Sequence[Shard]) -> None:
    """Move what shards cannot use to one that could use it."""
    if len(shards) == 1:
        return
    needy = [shard for shard in shards if await shard.wants_pages()]
    for shard in shards:
        if needy and shard is not needy[0]:
            await shard.give_pages(needy[0])


async def keep_for_seeds(shards: Sequence[Shard]) -> None:
    """Move what links would have to shards with more seeds than pages."""
    if len(shards) > 1:
        await move(shards, [await shard.spare_pages() for shard in shards])


async def move(shards: Sequence[Shard], spare: list[int]) -> None:
    """`spare` is what each shard has for links; it is negative where seeds lack pages."""
    for taker in range(len(spare)):
        for giver in range(len(spare)):
            moved = min(spare[giver], -spare[taker])
            if moved > 0:
                await shards[giver].give_pages(shards[taker], moved)
                spare[giver] -= moved
                spare[taker] += moved
