"""How a worker comes to a crawl: begins it, joins it or resumes it on every shard, or looks at it.

The first shard decides: its epoch, plan and limits are the crawl's, and the others follow it. Each
step can be repeated after a crash.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Any, NamedTuple

from crawlproj.frontier import ending, scope
from crawlproj.frontier import plan as plans
from crawlproj.frontier.bloom import Geometry
from crawlproj.frontier.limits import Limits
from crawlproj.frontier.messages import Opened
from crawlproj.frontier.refusals import CrawlDamaged
from crawlproj.frontier.shard import Shard

MakeShard = Callable[[int, Geometry, str], Shard]
"""Of a number, the geometry of its seen filter, and the epoch that it is in ("": not known yet)."""

_SMALLEST = Geometry(1, 0.1)
"""Of a shard that is only asked what the crawl is."""


class Offer(NamedTuple):
    """With what a worker would begin the crawl; those of one that exists win. `run` is shared by
    workers that were started together. Only a seed begins a crawl: one that the worker brings
    itself, or has found while `seed_found_at` was the epoch."""

    limits: Limits
    plan: dict[str, Any]
    run: str
    brings_seed: bool
    seed_found_at: str


async def open_first(make_shard: MakeShard, offer: Offer) -> Opened:
    """Begin, join or resume the crawl, or find that there is none to work at without a seed."""
    offered = {"version": plans.VERSION, **offer.plan, "limits": vars(offer.limits)}
    return await make_shard(0, _SMALLEST, "").open(
        secrets.token_hex(8),
        follow="",
        run=offer.run,
        fields=offer.limits.fields(0, json.dumps(offered)),
        lasts_ms=offer.limits.lasts_ms,
        brings_seed=offer.brings_seed,
        seed_found_at=offer.seed_found_at,
    )


async def open_others(shards: list[Shard], opened: Opened, limits: Limits, offer: Offer) -> None:
    """Open the other shards as the first was."""
    kept = json.dumps(opened.plan)  # who began it may not have come to the other shards yet
    for shard in shards[1:]:
        await shard.open(
            "",
            follow=opened.epoch,
            run=offer.run,
            fields=limits.fields(shard.number, kept),
            lasts_ms=offer.limits.lasts_ms,
        )
    for shard in shards if opened.mode != "new" else ():
        await scope.convert(shard)
    if opened.state != "finished" and len(shards) > 1:
        await ending.reopen(shards)


async def read_meta(make_shard: MakeShard) -> dict[str, str]:
    """What the first shard says of the crawl that is there; empty if there is none."""
    meta = await make_shard(0, _SMALLEST, "").meta()
    if meta and not meta.keys() >= {"epoch", "state", "plan"}:
        raise CrawlDamaged("meta lacks some of its fields")
    return meta


def shards_of(make_shard: MakeShard, limits: Limits, epoch: str) -> list[Shard]:
    """All shards of a crawl of this epoch."""
    capacity = max(1, limits.seen_capacity // limits.shards)
    geometry = Geometry(capacity, limits.seen_error_rate)
    return [make_shard(number, geometry, epoch) for number in range(limits.shards)]
