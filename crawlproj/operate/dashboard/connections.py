"""Connections of the dashboard's server, so that nobody who only opens them keeps others out.

uvicorn waits for ever for a request that was begun, and takes as many as come. Here a request must
be whole within a time, and of too many connections the one that has waited longest goes.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S = 10.0
"""From its first byte, or from when the connection was made, to the last byte of its body."""
MOST_CONNECTIONS = 1000
LOG_EVERY_S = 60.0

_log = logging.getLogger(__name__)


def most_connections() -> int:
    """Half of the files that this process may have open: Redis and the page need some, too."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_limited = files != resource.RLIM_INFINITY
    return min(MOST_CONNECTIONS, files // 2) if is_limited else MOST_CONNECTIONS


class ImpatientProtocol(H11Protocol):
    """HTTP for those who say what they want."""

    _deadline: asyncio.TimerHandle | None = None
    _cycle_before: Any = None
    """What the connection was at when the request that is awaited began."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            self._make_room()
        self._await_request()

    def data_received(self, data: bytes) -> None:
        if self._deadline is None:
            self._await_request()
        super().data_received(data)
        if self.cycle is not self._cycle_before and not self.cycle.more_body:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_request(self) -> None:
        self._cycle_before = self.cycle
        self._deadline = self.loop.call_later(REQUEST_S, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._stop_waiting()
        self.transport.abort()

    def _make_room(self) -> None:
        """End the connection that has been waited for longest; if all are busy, this one."""
        others = [one for one in self.connections if isinstance(one, ImpatientProtocol)]
        waiting = [(one._deadline.when(), one) for one in others if one._deadline is not None]
        oldest = min(waiting, key=lambda pair: pair[0], default=(0.0, self))[1]
        oldest._give_up()


class QuietLoop:
    """What the event loop says of connections that it cannot take: a line a minute. Of itself it
    prints thousands of tracebacks a second."""

    def __init__(self) -> None:
        self._said_at_s = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """For `set_exception_handler`."""
        if "socket.accept()" not in context.get("message", ""):
            loop.default_exception_handler(context)
        elif time.monotonic() - self._said_at_s > LOG_EVERY_S:
            self._said_at_s = time.monotonic()
            _log.warning("A connection cannot be taken: %s", context.get("exception"))
