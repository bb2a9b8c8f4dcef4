"""The fingerprints of a crawl's pages, for all its workers: who has met a near-copy before.

They are all with the first shard, for a page may be a near-copy of one of any host. About 290 bytes
of Redis's memory a page at a URL of 55 characters, of those that are near-copies of none; the
others take nothing (docs/near-duplicates.md). Nothing depends on it: a page that could not be asked
about has no mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from crawlproj.frontier.shard import Shard
from crawlproj.frontier.wire import pack, unpack

LEAST_RESEMBLANCE = 0.8
"""Of near-copies: the share of places in which their fingerprints agree."""
ASKED_AT_ONCE = 64
"""Pages in one script call: Redis does nothing else meanwhile."""


class Fingerprinted(NamedTuple):
    """A page that may be a near-copy (discover/fingerprint.py)."""

    url: str
    fingerprint: bytes
    bands: bytes
    is_revisit: bool = False
    """Whether an earlier version of it was asked about."""


async def first_near(shards: Sequence[Shard], pages: Sequence[Fingerprinted]) -> list[str]:
    """Of each page the URL of the first that it is a near-copy of, or "". Those that are copies of
    none are remembered for the others, each as it was first met."""
    fields = [value for page in pages for value in page]
    reply = await shards[0].call("find_near", [LEAST_RESEMBLANCE, pack(fields)])
    return [url.decode(errors="replace") for url in unpack(reply)]
