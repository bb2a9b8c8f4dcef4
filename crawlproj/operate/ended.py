"""What is known of a URL that is over and done with: what the frontier keeps of it, if it does, and
how sure it is that there was one at all."""

from __future__ import annotations

from crawlproj import reasons
from crawlproj.frontier import outcome_records, whereabouts
from crawlproj.frontier.bloom import expected_error
from crawlproj.frontier.shard import Shard
from crawlproj.items import utc_timestamp
from crawlproj.operate.why_states import Trace
from crawlproj.urls import Url

MEANINGS = {one.name: one.meaning for one in reasons.FILTERED}


async def outcome(shard: Shard, url: Url) -> Trace | None:
    """What the frontier keeps of it (FRONTIER_OUTCOMES)."""
    found = await outcome_records.read(shard, url.host, str(url).removeprefix(url.host))
    if found is None:
        return None
    at = utc_timestamp(found.at_ms / 1000)
    details = {"at": at, "worker": found.worker, "status": found.status}
    if not found.reason:
        return Trace("done", f"done: status {found.status} at {at}, by {found.worker}", details)
    meaning = MEANINGS.get(found.reason, "")
    text = f"filtered as {found.reason}{f' ({meaning})' if meaning else ''} at {at}"
    return Trace("filtered", f"{text}, by {found.worker}", details | {"reason": found.reason})


async def doubt(shard: Shard, key: str) -> float:
    """How probable it is that a URL of which only the seen filter knows was never taken in. Of a
    hash-sampled share of them it is known for certain."""
    if shard.sampled(key):
        return 0.0 if await whereabouts.is_sampled(shard, key) else 1.0
    return expected_error(shard.geometry, await shard.layer_items())


def doubt_in_words(probability: float) -> str:
    """Behind what the filter says."""
    if probability == 0.0:
        return ""
    if probability == 1.0:
        return "; or rather not: the seen filter errs, as the exact sample shows"
    return f" (of URLs that were never seen, the filter takes {probability:.2g} for seen)"
