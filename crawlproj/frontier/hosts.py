"""A host's or a group's record as the scripts keep it (lua/_hosts.lua), for those who only look."""

from __future__ import annotations

from typing import Any, NamedTuple

from crawlproj.frontier.messages import Lease
from crawlproj.frontier.wire import unpack, unpack_all

_LINES = {0: "", 1: "ready", 2: "waiting"}
"""By the number that a host's record has for them."""


class HostRecord(NamedTuple):
    """`at` is the line it stands in, ready or waiting, or empty; `cooling` and `hold_ms` are
    moments on the server's clock; `pause_ms` is its last pause, if longer than the crawl's; `why`
    says why it is held."""

    levels: list[float]
    out: int
    cooling: list[float]
    pages: int
    at: str
    failures: int
    hold_ms: float | None
    kept: int = 0
    group: str = ""
    per: int | None = None
    pause_ms: int | None = None
    reserved: int = 0
    """Seeds of it that wait, for which a page budget keeps pages."""
    why: str = ""
    copies: int = 0
    """Leases of it beyond one a URL (lua/_copies.lua)."""


class GroupRecord(NamedTuple):
    """As a host's; `per` is how many connections it may have, if it has a number of its own."""

    out: int
    cooling: list[float]
    pages: int
    at: str
    hold_ms: float | None
    kept: int
    per: int | None
    reserved: int = 0
    why: str = ""
    copies: int = 0


def read_host(packed: bytes) -> HostRecord:
    """Raises ValueError if it is no record."""
    try:
        levels, out, cooling, pages, at, *rest = unpack_all(packed)
        more = rest[0] if rest else {}
        failures, hold_ms, kept = more.get(b"failures", 0), more.get(b"hold"), more.get(b"kept", 0)
        group, per = more.get(b"group", b"").decode(), more.get(b"per")
        many = levels if isinstance(levels, list) else [levels]
        record = many, out, cooling or [], pages, _LINES[at], failures, hold_ms, kept
        others = more.get(b"pause"), more.get(b"reserved", 0), _text(more, b"why")
        return HostRecord(*record, group, per, *others, more.get(b"copies", 0))
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"no record of a host: {error}") from None


def with_host(lease: Lease, packed: bytes | None) -> Lease:
    """A lease, with what lua/lease.lua would tell of its host; as it is where that cannot be
    read, which is the scripts' to mend."""
    try:
        host = read_host(packed or b"")
    except ValueError:
        return lease
    return lease._replace(host_failures=host.failures, host_pages=host.pages)


def read_group(packed: bytes) -> GroupRecord:
    """Raises ValueError if it is no record."""
    try:
        found = unpack(packed)
        out, cooling, pages = found[b"out"], found[b"cooling"], found[b"pages"]
        at, kept = found.get(b"at", b"").decode(), found.get(b"kept", 0)
        rest = kept, found.get(b"per"), found.get(b"reserved", 0), _text(found, b"why")
        return GroupRecord(
            out, cooling, pages, at, found.get(b"hold"), *rest, found.get(b"copies", 0)
        )
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"no record of a group: {error}") from None


def _text(found: Any, name: bytes) -> str:
    text: str = found.get(name, b"").decode(errors="replace")
    return text


def levels_of(packed: bytes) -> list[float]:
    """The levels at which it has URLs; none if the record is damaged: the scripts mend it."""
    try:
        return read_host(packed).levels
    except ValueError:
        return []
