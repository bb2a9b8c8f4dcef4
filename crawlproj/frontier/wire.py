"""What Python and Redis's Lua must spell alike: msgpack, in which text and bytes are one type and
bytes come back, and the digest of a URL."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgpack


def pack(value: Any) -> bytes:
    """For a script. Its msgpack library has no type of its own for bytes."""
    return bytes(msgpack.packb(value, use_bin_type=False))


def unpack_all(packed: bytes) -> list[Any]:
    """Values that a script has packed one after the other."""
    unpacker = msgpack.Unpacker(raw=True, strict_map_key=False)
    unpacker.feed(packed)
    return list(unpacker)


def unpack(packed: bytes) -> Any:
    """From a script: every string is bytes. An empty Lua table is an empty list."""
    return msgpack.unpackb(packed, raw=True, strict_map_key=False) or []


def in_groups(values: Sequence[Any], size: int) -> list[tuple[Any, ...]]:
    """What a script tells one after the other, so many values of each thing."""
    return [tuple(values[start : start + size]) for start in range(0, len(values), size)]


def url_digest(host: str, path: str) -> bytes:
    """What the numbers of a GET are cut from: SHA-1 of `what_is_asked` (lua/_host_queues.lua) with
    an empty method and body."""
    asked = f"{host}\n{path}\n\n".encode()
    return hashlib.sha1(asked, usedforsecurity=False).digest()
