"""Leases as Redis tells of them: in the reply to a lease, and among what a worker holds. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from crawlproj.frontier.messages import Lease
from crawlproj.frontier.wire import in_groups, unpack, unpack_all

_FIELDS = 7
"""What lua/lease.lua tells of each URL."""


def read_new(shard: int, packed: bytes) -> list[Lease]:
    """Those that lua/lease.lua has made."""
    leases = []
    for values in in_groups(unpack(packed), _FIELDS):
        token, host, level, entry, failures, pages, group = values
        name, group_name = host.decode(errors="replace"), group.decode()
        leases.append(Lease(shard, token, name, level, entry, failures, pages, group_name))
    return leases


def read_held(shard: int, found: Mapping[bytes, bytes]) -> Iterator[Lease]:
    """Those of a hash of LEASED, without what is known of their hosts. What cannot be read is no
    lease of ours; the scripts set it aside."""
    for token, packed in found.items():
        with suppress(ValueError, TypeError, AttributeError):
            host, level, entry, *others = unpack_all(packed)
            group = others[1] or b"" if len(others) > 1 else b""
            lease = Lease(shard, int(token), host.decode(), level, entry)
            yield lease._replace(group=group.decode())
