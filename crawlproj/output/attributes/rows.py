"""A row of attributes, and what goes between a worker and the process that reads its pages. Pure:
nothing here reads a page."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import IO, Any

import msgpack

from crawlproj.config.keep_rules import Rule, parse_rule
from crawlproj.output.kinds import ATTRIBUTES
from crawlproj.running import PageToRead

COLUMNS = tuple(ATTRIBUTES.columns)

MAX_BODY = 4_000_000
"""Bytes of a page that are read."""

READY = "ready"
"""What the process says once it can read pages."""
OUT_OF_TIME = (None, "")
"""What it says of a page that it had to leave unread; else the line of its row, and what went wrong
with it."""

_LENGTH = struct.Struct(">I")


def make_rule(text: str | None) -> Rule:
    """A rule, or none, which every page satisfies."""
    return parse_rule(text) if text else lambda row: True


def row_of(page: PageToRead, found: Mapping[str, Any], problem: str = "") -> dict[str, Any]:
    """All columns; what was not found is None."""
    known = {**found, "url": page.url, "fetched_at": page.fetched_at, "lease": page.lease}
    known["problem"] = problem or None
    return {name: known.get(name) for name in COLUMNS}


def line_of(row: Mapping[str, Any], rule: Rule) -> bytes:
    """The line of a row; nothing if the rule is against it."""
    if not rule(row):
        return b""
    return f"{json.dumps(row, ensure_ascii=False)}\n".encode("utf-8", "replace")


def send(stream: IO[bytes], message: Any) -> None:
    """Write a message, whole."""
    packed = msgpack.packb(message)
    stream.write(_LENGTH.pack(len(packed)) + packed)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """The next message; raises EOFError if the other side is gone."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (size,) = _LENGTH.unpack(head)
    packed = stream.read(size)
    if len(packed) < size:
        raise EOFError
    return msgpack.unpackb(packed)
