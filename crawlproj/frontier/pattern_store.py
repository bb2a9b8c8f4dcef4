"""URL patterns that are set aside, and their URLs, as the shards of the frontier keep them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from crawlproj.frontier import keys
from crawlproj.frontier.messages import Kind, Push
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.wire import pack, unpack

AT_ONCE = 500


class Pattern(NamedTuple):
    """A URL pattern of a host that was set aside; `released_ms` is 0 while it is."""

    shard: int
    host: str
    pattern: str
    why: str
    since_ms: int
    released_ms: int
    urls: int


def set_aside_link(link: Push, pattern: str, why: str, key: str) -> Push:
    """The link, to be kept aside because of its pattern. Its key is apart from that of the URL,
    which is not marked as seen: what there is no room for can be found again later."""
    packed = pack([pattern, why, link.entry, link.key])
    return link._replace(kind=Kind.SET_ASIDE, entry=packed, key=key)


async def patterns_of(shards: Sequence[Shard]) -> list[Pattern]:
    """Those that are set aside, or have been, on all shards of a crawl: in one round trip."""
    pipeline = shards[0].client.pipeline(transaction=False)
    for shard in shards:
        pipeline.hgetall(keys.patterns(shard.crawl, shard.number))
    found = zip(shards, await pipeline.execute(), strict=True)
    return [pattern for shard, own in found for pattern in _read(shard, own)]


def _read(shard: Shard, found: Mapping[bytes, bytes]) -> list[Pattern]:
    known = []
    for name, packed in found.items():
        # What cannot be read is no pattern of ours; the scripts write it anew.
        with suppress(ValueError, TypeError, AttributeError):
            host, _, pattern = name.decode().partition(" ")
            why, since_ms, released_ms, urls = unpack(packed)
            times_ms = int(since_ms), int(released_ms)
            known.append(Pattern(shard.number, host, pattern, why.decode(), *times_ms, int(urls)))
    return known


async def changes_of(shards: Sequence[Shard]) -> list[int]:
    """How often they have changed on each shard, in one round trip."""
    pipeline = shards[0].client.pipeline(transaction=False)
    for shard in shards:
        pipeline.hget(keys.meta(shard.crawl, shard.number), "patterns")
    return [int(count or 0) for count in await pipeline.execute()]


async def kept(shards: Sequence[Shard], patterns: Iterable[Pattern]) -> list[int]:
    """How many URLs of each pattern, on any of the crawl's shards, would come back. A crawl that
    is not there has neither patterns nor shards."""
    if not shards:
        return []
    pipeline = shards[0].client.pipeline(transaction=False)
    for one in patterns:
        pipeline.llen(keys.set_aside(shards[0].crawl, one.shard, one.host, one.pattern))
    return [int(urls) for urls in await pipeline.execute()]


async def release(shard: Shard, pattern: Pattern, worker: str) -> int:
    """Release a pattern and queue what was kept aside of it; returns how many URLs that were.

    Each part is pushed before it is forgotten: a crash in between fetches some of it twice and
    loses nothing.
    """
    queued = pushed = new = 0
    while records := await shard.release_pattern(
        pattern.host, pattern.pattern, pushed, new, AT_ONCE
    ):
        links = [link for record in records if (link := _link(pattern.host, record))]
        new, pushed = sum(await shard.push(worker, links)), len(records)
        queued += new
    return queued


def _link(host: str, record: Any) -> Push | None:
    with suppress(ValueError, TypeError, AttributeError):
        kind, level, entry, key = record
        return Push(Kind(kind), host, level + 0, bytes(entry), key.decode())
    return None
