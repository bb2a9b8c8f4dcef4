"""Hosts or domains that seeds brought into scope, as every shard keeps them.

Many seeds mean many names. So a worker reads only those that have come since it read last, and
whoever wants to know of a few names asks for those.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from crawlproj.frontier import keys
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.wire import pack

AT_ONCE = 1000


async def widen(shard: Shard, names: Sequence[str]) -> None:
    """Bring names into scope."""
    for start in range(0, len(names), AT_ONCE):
        await shard.call("widen_scope", [pack(names[start : start + AT_ONCE])])


async def convert(shard: Shard) -> None:
    """Take over what an older version has kept, in pieces that block nobody for long."""
    if await shard.client.exists(keys.old_scope(shard.crawl, shard.number)):
        while await shard.call("widen_scope", [pack([])]):
            pass


async def since(shard: Shard, position: int) -> list[str]:
    """The names behind the first so many."""
    key, found = keys.scope(shard.crawl, shard.number), list[str]()
    while True:
        start = position + len(found)
        piece = await shard.client.zrange(key, start, start + AT_ONCE - 1)
        found += [name.decode(errors="replace") for name in piece]
        if len(piece) < AT_ONCE:
            return found


async def among(shard: Shard, names: Collection[str]) -> set[str]:
    """Which of these names are in scope."""
    wanted = list(names)
    scores = await shard.client.zmscore(keys.scope(shard.crawl, shard.number), wanted)
    old = await shard.client.smismember(keys.old_scope(shard.crawl, shard.number), wanted)
    known = zip(wanted, scores, old, strict=True)
    return {name for name, score, is_old in known if score is not None or is_old}
