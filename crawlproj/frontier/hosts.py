"""A host's record as the scripts keep it (lua/_hosts.lua), for those who only look at it."""

from __future__ import annotations

from typing import NamedTuple

from crawlproj.frontier.wire import unpack_all


class HostRecord(NamedTuple):
    """`at` is the line it stands in, ready or waiting, or empty; `cooling` and `hold_ms` are
    moments on the server's clock."""

    levels: list[int]
    out: int
    cooling: list[float]
    pages: int
    at: str
    failures: int
    hold_ms: float | None
    kept: int = 0


def read_host(packed: bytes) -> HostRecord:
    """Raises ValueError if it is no record."""
    try:
        levels, out, cooling, pages, at, *rest = unpack_all(packed)
        more = rest[0] if rest else {}
        failures, hold_ms, kept = more.get(b"failures", 0), more.get(b"hold"), more.get(b"kept", 0)
        return HostRecord(levels, out, cooling, pages, at.decode(), failures, hold_ms, kept)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"no record of a host: {error}") from None


def levels_of(packed: bytes) -> list[int]:
    """The levels at which it has URLs; none if the record is damaged: the scripts mend it."""
    try:
        return read_host(packed).levels
    except ValueError:
        return []
