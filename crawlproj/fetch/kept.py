"""What is known of the connections that libcurl keeps: their socket, and who is at the other end.

A kept connection over which something came between two requests is of no use any more: its server
has closed it, or speaks without being asked, and what it says would be taken for the answer to the
next request. libcurl looks for that once a second only, so a request is held back at the last
moment and sent over a new connection instead. Over HTTP/2 servers may speak at any time, and no
answer can be mistaken for another; but what they say while nobody asks is goodbye, nearly always,
and a request that is sent after it is lost. A new connection is the smaller loss.

Under TLS what was said unasked may be with OpenSSL already, which reads more than it was asked for:
no look at the socket finds it. It is then taken for an answer at once, before a byte has come since
the request was sent, and that the kernel knows. So no connection has to be closed on suspicion:
not after a HEAD either, the answer to which some servers send with a body. Systems other than Linux
do not say how much has come.
"""

from __future__ import annotations

import select
import socket
import struct
import sys
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple


class Line(NamedTuple):
    """Both ends of a connection, which no two have in common at a time. Our own address belongs to
    it, since two of ours may use one port."""

    address: str = ""
    port: int = 0
    own_address: str = ""
    own_port: int = 0


@dataclass(slots=True)
class Connection:
    """What is known of one."""

    fd: int
    """libcurl's: it may be closed by now."""
    is_shared: bool | None = None
    """Whether it can have many exchanges at a time, as HTTP/2 has: known by its first answer."""
    is_resting: bool = False
    """Its last exchange is over, and nothing more is to come of it."""
    exchanges: int = 0
    """That are under way."""
    certificate: bytes | None = None
    """Of the server, in DER."""

    def bytes_come(self) -> int:
        """Over it until now; 0 where that is not known."""
        return _bytes_come(self.fd)


class Marked:
    """Hosts that something has to be remembered of: the last of them."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._known: dict[Hashable, None] = {}

    def __contains__(self, host: Hashable) -> bool:
        return host in self._known

    def add(self, host: Hashable) -> None:
        self._known.pop(host, None)
        while len(self._known) >= self._most:
            del self._known[next(iter(self._known))]
        self._known[host] = None


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
            if len(opened) == 1 or _own_port(fd) == line.own_port:
                self._known[line] = Connection(fd)

    def find(self, line: Line) -> Connection | None:
        return self._known.get(line)

    def is_spoilt(self, line: Line) -> bool:
        """Whether something waits to be read from a connection that has rested until now. To be
        asked once for each request: it counts as used from then on, and one that is shared and
        spoilt is ended."""
        known = self._known.pop(line, None)
        if known is None:
            return False
        self._known[line] = known  # the last to be forgotten, as it is in use
        if not known.is_resting or (known.is_shared and known.exchanges):
            return False
        is_spoilt = _can_be_read(known.fd)
        known.is_resting = is_spoilt and bool(known.is_shared)
        if known.is_resting:
            # libcurl would offer one that is shared again until it finds it closed.
            _end(known.fd, line.own_port)
        return is_spoilt


@contextmanager
def _view(fd: int) -> Iterator[socket.socket]:
    with socket.socket(fileno=fd) as view:
        try:
            yield view
        finally:
            view.detach()  # it is libcurl's to close


def _end(fd: int, own_port: int) -> None:
    """Unless the number is another file's by now, against all that is known."""
    with suppress(OSError), _view(fd) as view:
        if view.getsockname()[1] == own_port:
            view.shutdown(socket.SHUT_RDWR)


def _own_port(fd: int) -> int:
    with suppress(OSError), _view(fd) as view:
        port: int = view.getsockname()[1]
        return port
    return 0


if sys.platform == "linux":
    _COME = struct.Struct("=Q")
    _COME_AT = 128
    """Where tcpi_bytes_received is in struct tcp_info."""

    def _bytes_come(fd: int) -> int:
        """Over a connection until now; 0 if the system does not know it."""
        with suppress(OSError, struct.error), _view(fd) as view:
            known = view.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _COME_AT + _COME.size)
            come: int = _COME.unpack_from(known, _COME_AT)[0]
            return come
        return 0

else:

    def _bytes_come(fd: int) -> int:
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
