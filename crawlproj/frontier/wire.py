"""msgpack as Redis's Lua speaks it: text and bytes are one type, and bytes come back."""

from __future__ import annotations

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
