"""Cookies that all workers share, as the first shard of the frontier keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from crawlproj.frontier import keys
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.wire import in_groups, pack, unpack

MOST_COOKIES, MOST_COOKIE_BYTES = 180, 64 * 1024
"""Cookies that are kept of a registrable domain, all its hosts and jars together, and their bytes:
about what browsers keep."""


def changes_told(shards: Sequence[Shard]) -> int:
    """How often, as was last told, workers were given cookies that all of them share."""
    return sum(shard.cookie_changes for shard in shards)


async def share(shards: Sequence[Shard], changes: Mapping[str, Mapping[str, bytes]]) -> None:
    """Keep what has changed of the cookies of domains, by their ids (b"" for one that is gone). The
    first shard keeps the cookies, and the leases of every shard say that there are new ones. The
    URLs that need them are pushed after that, so that a worker that leases one knows of them."""
    for shard in shards:
        await _share(shard, changes if shard.number == 0 else {})


async def _share(shard: Shard, changes: Mapping[str, Mapping[str, bytes]]) -> None:
    items = [
        part
        for domain, cookies in changes.items()
        for part in (domain, [value for pair in cookies.items() for value in pair])
    ]
    await shard.call("cookies", [pack(items), MOST_COOKIES, MOST_COOKIE_BYTES])


async def cookies_of(shards: Sequence[Shard], domains: Sequence[str]) -> list[dict[str, bytes]]:
    """The cookies that are kept of registrable domains, by their ids."""
    shard = shards[0]
    key = keys.cookies(shard.crawl, shard.number)
    return [_read(packed) for packed in await shard.client.hmget(key, domains)]


def _read(packed: bytes | None) -> dict[str, bytes]:
    # What cannot be read is none of ours; the next change replaces it.
    with suppress(ValueError, TypeError, AttributeError):
        pairs = in_groups(unpack(packed) if packed else [], 2)
        return {id_.decode(): cookie for id_, cookie in pairs if isinstance(cookie, bytes)}
    return {}
