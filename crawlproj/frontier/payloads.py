"""Which payloads a crawl has archived, and where each was met first, for all its workers.

About 110 bytes of Redis's memory a payload that was met at a URL of 55 characters. Nothing depends
on it: a payload that is not known here is archived again. Each is marked with the epoch that it was
met in: what a late worker tells of the crawl before, whose archive has been moved aside, is not
referred to.
"""

from __future__ import annotations

import re
import struct
from binascii import crc32
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from redis.exceptions import RedisError

from crawlproj.frontier import keys
from crawlproj.frontier.shard import Shard

KEY_BYTES = 16
"""Of the SHA-256 that are kept: two payloads that agree in them cannot be made."""

Met = tuple[int, str]
"""When, in seconds since 1970, and at which URL."""

_HEAD = struct.Struct(">II")
"""Of a value: a checksum of the epoch, and the seconds; the URL follows."""
_URL = re.compile(rb"https?://[\x21-\x7e]{1,8000}")


async def known(shards: Sequence[Shard], digests: Iterable[bytes]) -> dict[bytes, Met]:
    """Where these payloads were met, of those that were; less where Redis does not answer."""
    found: dict[bytes, Met] = {}
    with suppress(RedisError):
        for shard, own in _by_shard(shards, digests):
            key = keys.payloads(shard.crawl, shard.number)
            values = await shard.client.hmget(key, [digest[:KEY_BYTES] for digest in own])
            for digest, value in zip(own, values, strict=True):
                if value is not None and (met := _read(value, shard.epoch)):
                    found[digest] = met
    return found


async def keep(shards: Sequence[Shard], met: Mapping[bytes, Met]) -> None:
    """These payloads are on disk. A Redis that is away, or has no room, is not told."""
    with suppress(RedisError):
        for shard, own in _by_shard(shards, met):
            key = keys.payloads(shard.crawl, shard.number)
            fields = {digest[:KEY_BYTES]: _value(*met[digest], shard.epoch) for digest in own}
            await shard.client.hset(key, mapping=fields)


def _by_shard(
    shards: Sequence[Shard], digests: Iterable[bytes]
) -> Iterable[tuple[Shard, list[bytes]]]:
    groups: dict[int, list[bytes]] = {}
    for digest in digests:
        groups.setdefault(digest[0] % len(shards), []).append(digest)
    return [(shards[number], own) for number, own in groups.items()]


def _value(at_s: int, url: str, epoch: str) -> bytes:
    return _HEAD.pack(crc32(epoch.encode()), at_s) + url.encode()


def _read(value: bytes, epoch: str) -> Met | None:
    """None for what is of another epoch, or none of ours: it would become a header of a record."""
    url = value[_HEAD.size :]
    if not _URL.fullmatch(url):
        return None
    mark, at_s = _HEAD.unpack_from(value)
    return (at_s, url.decode()) if mark == crc32(epoch.encode()) else None
