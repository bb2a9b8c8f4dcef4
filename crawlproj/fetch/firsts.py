"""Requests that go to one host at the same time: the first of them makes a connection, and the
others wait for it, since over HTTP/2 they can share it.

libcurl can have them wait, too (PIPEWAIT), but has one queue for all hosts, in which those that
wait for a handshake that never ends stand before others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

Turn = set[asyncio.Future[None]]
"""Of one first request: those who wait for it."""


class Firsts:
    """Who is making a connection, by where it leads."""

    def __init__(self) -> None:
        self._turns: dict[Hashable, Turn] = {}

    def __contains__(self, where: Hashable) -> bool:
        return where in self._turns

    def begin(self, where: Hashable) -> Turn:
        """The turn of who is the first to go there, and must end it."""
        turn: Turn = set()
        self._turns[where] = turn
        return turn

    async def wait(self, where: Hashable) -> None:
        """Until the first one has its connection, or has failed."""
        turn = self._turns[where]
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        turn.add(ended)
        try:
            await ended
        finally:
            turn.discard(ended)

    def end(self, where: Hashable, turn: Turn) -> None:
        """The others may go; ended twice, it is ended once."""
        if self._turns.get(where) is turn:
            del self._turns[where]
            for one in turn:
                if not one.done():
                    one.set_result(None)

    def end_all(self) -> None:
        """All may go; who was broken off finds that out by itself."""
        for where, turn in list(self._turns.items()):
            self.end(where, turn)
