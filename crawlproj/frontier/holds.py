"""Hosts and groups of a shard that asked to be left alone. A worker that has leased more of such a
host must not begin with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from crawlproj.frontier import keys
from crawlproj.frontier.hosts import GroupRecord, HostRecord, read_group, read_host
from crawlproj.frontier.messages import Lease
from crawlproj.frontier.shard import Shard

ASK_EVERY_S = 0.2
"""After so long without a reply that tells of holds, they are asked for."""


async def new_holds(shard: Shard, leases: Iterable[Lease]) -> dict[str, int]:
    """Which hosts of these leases, and groups of them, have been held since this was asked last,
    and for how many ms they are to be left alone."""
    if time.monotonic() - shard.holds_read_at_s >= ASK_EVERY_S:
        await shard.ask_for_holds()
    if shard.holds == shard.holds_applied:
        return {}
    applying = shard.holds  # what is told while the records are read may not be in them
    some = list(leases)
    hosts, groups = {lease.host for lease in some}, {lease.group for lease in some} - {""}
    now_ms = await shard.now_ms()
    ends = await _ends_ms(shard, keys.hosts(shard.crawl, shard.number), hosts, read_host)
    ends |= await _ends_ms(shard, keys.groups(shard.crawl, shard.number), groups, read_group)
    shard.holds_applied = applying
    return {name: round(at_ms - now_ms) for name, at_ms in ends.items() if at_ms > now_ms}


async def _ends_ms(
    shard: Shard, key: str, names: set[str], read: Callable[[bytes], HostRecord | GroupRecord]
) -> dict[str, float]:
    """When the holds among them end, on the crawl's clock."""
    found: dict[str, float] = {}
    if not names:
        return found
    wanted = sorted(names)
    for name, packed in zip(wanted, await shard.client.hmget(key, wanted), strict=True):
        # What cannot be read is the scripts' to mend.
        with suppress(ValueError):
            if packed and (until_ms := read(packed).held_until_ms):
                found[name] = until_ms
    return found
