"""What tells requests of one URL from each other, in the files that a crawl leaves.

Rows and items of a request that was leased twice are there twice, and merging keeps those of one
lease. A URL does not say whether two leases are of one request: a spider may ask it by POST with
another body each time, or with other cb_kwargs. What says it is the entry that the frontier stores,
which is the same in every lease but for its attempts and what its last visit has left.

A request that is tried again has another entry, since middlewares leave their marks in its meta and
headers. It carries on the identity of the first.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any

import msgpack

from crawlproj.frontier.meta_keys import REQUEST

_OWN_FIELDS = 4
"""Address, depth, referer and rest; what follows is of the last visit."""
_PLAIN = (b"\x92", b"\x93")
"""How msgpack begins a list of two or three: a link, which has no rest."""
_IDENTITY = re.compile("(?:[0-9a-f]{16})?")


def identity_of(entry: bytes) -> str:
    """Sixteen hexadecimal digits; "" for a plain GET, which its URL says all of, and for an entry
    that cannot be read."""
    if entry[2:3] in _PLAIN:
        return ""
    try:
        record = _unpacked(entry)[:_OWN_FIELDS]
        if len(record) < _OWN_FIELDS or not record[3]:
            return ""
        carried = record[3].get("meta", {}).get(REQUEST)
        if isinstance(carried, str) and _IDENTITY.fullmatch(carried):
            return carried
        return blake2b(msgpack.packb(record), digest_size=8).hexdigest()
    except Exception:
        return ""


def carry_identity(before: bytes, entry: bytes) -> bytes:
    """The entry of a request that is tried again as what it was before."""
    if before[1:] == entry[1:]:
        return entry
    record = _unpacked(entry)
    record += ["", {}][len(record) - 2 :]
    rest = record[3]
    record[3] = {**rest, "meta": {**rest.get("meta", {}), REQUEST: identity_of(before)}}
    return entry[:2] + bytes(msgpack.packb(record))


def _unpacked(entry: bytes) -> list[Any]:
    record: list[Any] = msgpack.unpackb(entry[2:], strict_map_key=False)
    return record
