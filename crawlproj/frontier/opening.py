"""How a worker comes to a crawl: begins it, joins it or resumes it on every shard, or looks at it.

The first shard decides: its epoch and plan are the crawl's, and the others follow it. Each
step can be repeated after a crash.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import NamedTuple

from crawlproj import __version__
from crawlproj.frontier import finishing, scope
from crawlproj.frontier.bloom import Geometry
from crawlproj.frontier.messages import Arrival, Opened
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.refusals import CrawlDamaged, CrawlNewer
from crawlproj.frontier.shard import Shard

MakeShard = Callable[[int, Geometry, str], Shard]
"""Of a number, the geometry of its seen filter, and the epoch that it is in ("": not known yet)."""

_SMALLEST = Geometry(1, 0.1)
"""Of a shard that is only asked what the crawl is."""


class Offer(NamedTuple):
    """What a worker would begin the crawl with; the plan of a crawl that exists wins. `run` is
    shared by workers that were started together."""

    plan: Plan
    run: str
    arrival: Arrival


async def open_first(make_shard: MakeShard, offer: Offer) -> Opened:
    """Begin, join or resume the crawl, or find that there is none to work at without a seed."""
    return await make_shard(0, _SMALLEST, "").open(
        secrets.token_hex(8),
        follow="",
        run=offer.run,
        fields=offer.plan.meta_fields(0, offer.plan.encode()),
        lasts_ms=offer.plan.lasts_ms,
        arrival=offer.arrival,
    )


async def open_others(shards: list[Shard], opened: Opened, plan: Plan, offer: Offer) -> None:
    """Open the other shards as the first was."""
    # The worker that began the crawl may not have opened these shards yet.
    for shard in shards[1:]:
        await shard.open(
            "",
            follow=opened.epoch,
            run=offer.run,
            fields=plan.meta_fields(shard.number, opened.plan),
            lasts_ms=offer.plan.lasts_ms,
        )
    for shard in shards if opened.mode != "new" else ():
        await scope.convert(shard)
    if opened.state != "finished" and len(shards) > 1:
        await finishing.reopen(shards)


async def read_meta(make_shard: MakeShard) -> dict[str, str]:
    """What the first shard says of the crawl that is there; empty if there is none."""
    meta = await make_shard(0, _SMALLEST, "").meta()
    if meta and not meta.keys() >= {"epoch", "state", "plan"}:
        raise CrawlDamaged("meta lacks some of its fields")
    return meta


def plan_of(meta: dict[str, str], *, only_to_look: bool) -> tuple[Plan, str]:
    """The plan of a crawl; for those who only look, what can be read of one that another version
    has made, and what that is."""
    made_by = meta.get("made_by", "")
    try:
        return Plan.decode(meta["plan"], made_by), ""
    except CrawlDamaged as error:
        newer = error
        if not isinstance(error, CrawlNewer):
            if made_by in ("", __version__):
                raise
            newer = CrawlNewer(f"values ({error.what})", made_by)
        if not only_to_look:
            raise newer from None
        return Plan.decode_known(meta["plan"]), str(newer)


def shards_of(make_shard: MakeShard, plan: Plan, epoch: str) -> list[Shard]:
    """All shards of a crawl of this epoch."""
    capacity = max(1, plan.seen_capacity // plan.shards)
    geometry = Geometry(capacity, plan.seen_error_rate)
    return [make_shard(number, geometry, epoch) for number in range(plan.shards)]
