"""What is known of the connections that libcurl keeps: their socket, and who is at the other end.

A kept connection over which something came between two requests is of no use any more: its server
has closed it, or speaks without being asked, and what it says would be taken for the answer to the
next request. libcurl looks for that once a second only, so a request is held back at the last
moment and sent over a new connection instead. Over HTTP/2 servers may speak at any time, and no
answer can be mistaken for another.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

Line = tuple[str, int, int]
"""Address and port of the server, and our own port: no two connections at a time share them."""


@dataclass(slots=True)
class Connection:
    fd: int
    is_resting: bool = False
    """Its exchange is over, and it can have one at a time."""
    certificate: bytes | None = None
    """Of the server, in DER."""


class KeptConnections:
    """Connections by where they lead."""

    def __init__(self, most: int) -> None:
        self._most = 2 * most
        self._known: dict[Line, Connection] = {}

    def note(self, line: Line, opened: Sequence[int]) -> None:
        """One of these sockets has become this connection."""
        while len(self._known) >= self._most:
            del self._known[next(iter(self._known))]  # unused for longest: most probably closed
        self._known.pop(line, None)
        for fd in opened:
            if len(opened) == 1 or _own_port(fd) == line[2]:
                self._known[line] = Connection(fd)

    def find(self, line: Line) -> Connection | None:
        return self._known.get(line)

    def is_spoilt(self, line: Line) -> bool:
        """Whether something waits to be read from a connection that has rested until now."""
        known = self._known.pop(line, None)
        if known is None:
            return False
        self._known[line] = known  # the last to be forgotten, as it is in use
        if not known.is_resting:
            return False
        known.is_resting = False
        return _can_be_read(known.fd)


def _own_port(fd: int) -> int:
    with suppress(OSError), socket.socket(fileno=fd) as view:
        try:
            port: int = view.getsockname()[1]
            return port
        finally:
            view.detach()  # it is libcurl's to close
    return 0


if hasattr(select, "poll"):
    _EVENTS = select.POLLIN | select.POLLPRI

    def _can_be_read(fd: int) -> bool:
        poll = select.poll()
        poll.register(fd, _EVENTS)
        return bool(poll.poll(0))

else:

    def _can_be_read(fd: int) -> bool:
        return bool(select.select([fd], [], [], 0)[0])
