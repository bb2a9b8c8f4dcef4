"""Looks through the hosts of a crawl piece by piece, for those who look for some of very many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from crawlproj.frontier.shard import Shard
from crawlproj.frontier.survey import HostFound
from crawlproj.frontier.wire import in_groups

AT_ONCE = 1000
"""Hosts that one call looks at, about."""

START = b"0"


class Piece(NamedTuple):
    """What one call has found, and where the next one goes on."""

    now_ms: int
    cursor: bytes
    looked_at: int
    found: list[tuple[HostFound, float]]
    """With when each may be contacted: a moment on the crawl's clock, 0 if it is not waiting."""

    @property
    def is_last(self) -> bool:
        return self.cursor == START


async def browse(shard: Shard, cursor: bytes = START, text: str = "") -> Piece:
    """The next hosts whose names contain the text."""
    args = [cursor, AT_ONCE, text.lower()]
    now_ms, where, looked_at, hosts = await shard.run("browse_hosts", args)
    return Piece(now_ms, where, int(looked_at), [_host(one) for one in in_groups(hosts, 4)])


def _host(values: Sequence[Any]) -> tuple[HostFound, float]:
    name, packed, queued, due_ms = values
    return HostFound(name.decode(errors="replace"), packed, queued), float(due_ms or 0)
