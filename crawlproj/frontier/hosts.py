"""A host's or a group's record as the scripts keep it (lua/_hosts.lua), for those who only look."""

from __future__ import annotations

from typing import Any, NamedTuple

from crawlproj.frontier.messages import Lease
from crawlproj.frontier.wire import unpack, unpack_all

_LINES = {0: "", 1: "ready", 2: "waiting"}
"""By the number that a host's record has for them."""


class HostRecord(NamedTuple):
    """Moments are on the server's clock."""

    levels: list[float]
    """At which it has URLs, the best last."""
    out: int
    """Requests that are under way, copies included."""
    cooling: list[float]
    """When the pauses end of connections whose request is over."""
    pages: int
    """That are done."""
    at: str
    """The line it stands in: ready, waiting, or empty for neither."""
    failures: int
    """In a row, up to now."""
    held_until_ms: float | None
    kept: int = 0
    """URLs that stay leased though their request has ended (lua/settle.lua)."""
    group: str = ""
    connections: int | None = None
    """That it may have, if not as many as the crawl says."""
    pause_ms: int | None = None
    """Its last pause, if longer than the crawl's."""
    reserved: int = 0
    """Seeds of it that wait, for which a page budget keeps pages."""
    why: str = ""
    """Why it is held."""
    copies: int = 0
    """Leases of it beyond one a URL (lua/_copies.lua)."""
    woken: int = 0
    """Pages to revisit that wait, for which a page budget keeps theirs."""


class GroupRecord(NamedTuple):
    """The same, of all hosts of a group together."""

    out: int
    cooling: list[float]
    pages: int
    at: str
    held_until_ms: float | None
    kept: int
    connections: int | None
    reserved: int = 0
    why: str = ""
    copies: int = 0
    woken: int = 0


def read_host(packed: bytes) -> HostRecord:
    """Raises ValueError if it is no record."""
    try:
        levels, out, cooling, pages, at, *rest = unpack_all(packed)
        more = rest[0] if rest else {}
        return HostRecord(
            levels=levels if isinstance(levels, list) else [levels],
            out=out,
            cooling=cooling or [],
            pages=pages,
            at=_LINES[at],
            failures=more.get(b"failures", 0),
            held_until_ms=more.get(b"hold"),
            kept=more.get(b"kept", 0),
            group=more.get(b"group", b"").decode(),
            connections=more.get(b"per"),
            pause_ms=more.get(b"pause"),
            reserved=more.get(b"reserved", 0),
            why=_text(more, b"why"),
            copies=more.get(b"copies", 0),
            woken=more.get(b"woken", 0),
        )
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
        return GroupRecord(
            out=found[b"out"],
            cooling=found[b"cooling"],
            pages=found[b"pages"],
            at=found.get(b"at", b"").decode(),
            held_until_ms=found.get(b"hold"),
            kept=found.get(b"kept", 0),
            connections=found.get(b"per"),
            reserved=found.get(b"reserved", 0),
            why=_text(found, b"why"),
            copies=found.get(b"copies", 0),
            woken=found.get(b"woken", 0),
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
