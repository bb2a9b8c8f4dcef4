"""Which payloads a crawl has archived, and where each was met first, for all its workers.

About 105 bytes of Redis's memory a payload that was met at a URL of 55 characters. Nothing depends
on it: a payload that is not known here is archived again.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from redis.exceptions import RedisError

from crawlproj.frontier import keys
from crawlproj.frontier.shard import Shard

KEY_BYTES = 16
"""Of the SHA-256 that are kept: two payloads that agree in them cannot be made."""

Met = tuple[int, str]
"""When, in seconds since 1970, and at which URL."""

_SECONDS = struct.Struct(">I")
_URL = re.compile(rb"https?://[\x21-\x7e]{1,8000}")


async def known(shards: Sequence[Shard], digests: Iterable[bytes]) -> dict[bytes, Met]:
    """Where these payloads were met, of those that were; less where Redis does not answer."""
    found: dict[bytes, Met] = {}
    with suppress(RedisError):
        for shard, own in _by_shard(shards, digests):
            key = keys.payloads(shard.crawl, shard.number)
            values = await shard.client.hmget(key, [digest[:KEY_BYTES] for digest in own])
            for digest, value in zip(own, values, strict=True):
                if value is not None and (met := _read(value)):
                    found[digest] = met
    return found


async def keep(shards: Sequence[Shard], met: Mapping[bytes, Met]) -> None:
    """These payloads are on disk. A Redis that is away, or has no room, is not told."""
    with suppress(RedisError):
        for shard, own in _by_shard(shards, met):
            key = keys.payloads(shard.crawl, shard.number)
            fields = {
                digest[:KEY_BYTES]: _SECONDS.pack(met[digest][0]) + met[digest][1].encode()
                for digest in own
            }
            await shard.client.hset(key, mapping=fields)


def _by_shard(
    shards: Sequence[Shard], digests: Iterable[bytes]
) -> Iterable[tuple[Shard, list[bytes]]]:
    groups: dict[int, list[bytes]] = {}
    for digest in digests:
        groups.setdefault(digest[0] % len(shards), []).append(digest)
    return [(shards[number], own) for number, own in groups.items()]


def _read(value: bytes) -> Met | None:
    """None for what is none of ours: it would become a header of a record."""
    url = value[_SECONDS.size :]
    if not _URL.fullmatch(url):
        return None
    return _SECONDS.unpack_from(value)[0], url.decode()
