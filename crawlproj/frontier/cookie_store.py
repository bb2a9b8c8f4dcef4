"""Cookies that all workers share, as one shard of the frontier keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from crawlproj.frontier import keys
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.wire import in_groups, pack, unpack

MOST_COOKIES, MOST_COOKIE_BYTES = 180, 64 * 1024
"""Cookies that are kept of a registrable domain, all its hosts and jars together, and their bytes:
about what browsers keep."""


async def share(shard: Shard, changes: Mapping[str, Mapping[str, bytes]]) -> None:
    """Keep what has become of the cookies of domains, by their ids (b"" for one that is gone), and
    tell all workers with their leases that there is something to hear."""
    items = [
        part
        for domain, cookies in changes.items()
        for part in (domain, [value for pair in cookies.items() for value in pair])
    ]
    await shard.call("cookies", [pack(items), MOST_COOKIES, MOST_COOKIE_BYTES])


async def cookies_of(shard: Shard, domains: Sequence[str]) -> list[dict[str, bytes]]:
    """The cookies that are kept of domains, by their ids."""
    key = keys.cookies(shard.crawl, shard.number)
    return [_read(packed) for packed in await shard.client.hmget(key, domains)]


def _read(packed: bytes | None) -> dict[str, bytes]:
    # What cannot be read is none of ours; the next change replaces it.
    with suppress(ValueError, TypeError, AttributeError):
        pairs = in_groups(unpack(packed) if packed else [], 2)
        return {id_.decode(): cookie for id_, cookie in pairs if isinstance(cookie, bytes)}
    return {}
