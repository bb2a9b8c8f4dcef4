"""How the plan of a crawl is changed on all of its shards while it goes on.

The first shard comes last, for its plan is the crawl's: what a crash leaves half changed is changed
again by whoever asks for it again (lua/replan.lua).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crawlproj.frontier.plan import UNLIMITED_PAGES, Plan
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.wire import pack

USED = "used"
"""Of a page budget: as many as have been used (lua/replan.lua)."""


async def change_plan(
    shards: Sequence[Shard],
    now: Plan,
    becomes: Plan,
    *,
    before: str,
    lasts_ms: int | None,
    mends: bool = False,
) -> bool:
    """Change it; `before` is what it was as Redis keeps it. False if someone else has changed it.
    `mends` says that other shards than the first may have been left with any plan."""
    encoded, others = becomes.encode(), 0
    for shard in reversed(shards):
        expected = "" if mends and shard.number else before
        fields = becomes.meta_fields(shard.number, encoded)
        kept = {name: value for name, value in fields.items() if name not in ("pages", "plan")}
        more, pages = pages_of_shard(now, becomes, others, is_first=shard.number == 0)
        until = "" if lasts_ms is None else lasts_ms
        share = await replan(shard, [expected, encoded, pack(kept), more, until, pages])
        if share is None:
            return False
        others += share
    return True


async def replan(shard: Shard, args: list[Any]) -> int | None:
    """Change it on one shard, by what lua/replan.lua takes; returns the pages that the shard has of
    the budget then, or None if the plan is another by now."""
    share: int | None = await shard.call("replan", args)
    return share


def pages_of_shard(
    now: Plan, becomes: Plan, others: int, *, is_first: bool
) -> tuple[int, int | str]:
    """How many pages more a shard has of the budget, and how many it has, if they are counted anew.
    A larger budget begins on the first shard and goes where it is needed from there. Of a budget
    that the crawl lacked the other shards have what they have used by then, the first has the rest:
    so the shares add up, whatever is fetched meanwhile. Where that is more than the budget the
    first has none: less than none would be read as no budget."""
    if becomes.pages is None:
        return 0, UNLIMITED_PAGES
    if now.pages is None:
        return 0, max(0, becomes.pages - others) if is_first else USED
    return becomes.pages - now.pages if is_first else 0, ""
