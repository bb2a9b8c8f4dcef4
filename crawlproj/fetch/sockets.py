"""Watching libcurl's sockets: which of them can be read or written to, told to one callback.

A kernel that has epoll watches them for us in a set of its own, and the event loop watches that
one file. A socket between two requests stays in the set, so that a page over a kept connection
costs no system call for it; a socket that was closed leaves the set by itself, so no file number
can be mistaken for an earlier one. Elsewhere the event loop watches each socket.
"""

from __future__ import annotations

import asyncio
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

READ, WRITE, NOTHING = 1, 2, 0
"""As libcurl has them: POLL_IN and POLL_OUT, CSELECT_IN and CSELECT_OUT."""

OnReady = Callable[[list[tuple[int, int]]], None]
"""Gets sockets and what can be done with each."""


class Sockets(Protocol):
    def watch(self, fd: int, wanted: int) -> None:
        """Tell from now on when this, and nothing else, can be done with a socket."""

    def close(self) -> None:
        """Watch nothing any more."""


def watch_sockets(loop: asyncio.AbstractEventLoop, on_ready: OnReady) -> Sockets:
    if sys.platform == "linux":
        return EpollSockets(loop, on_ready)
    return LoopSockets(loop, on_ready)


if sys.platform == "linux":
    _TO_KERNEL = {READ: select.EPOLLIN, WRITE: select.EPOLLOUT, 3: select.EPOLLIN | select.EPOLLOUT}
    _BROKEN = select.EPOLLERR | select.EPOLLHUP

    class EpollSockets:
        """One file for the event loop, whatever the number of sockets."""

        def __init__(self, loop: asyncio.AbstractEventLoop, on_ready: OnReady) -> None:
            self._loop = loop
            self._on_ready = on_ready
            self._epoll = select.epoll()
            self._watched: dict[int, int] = {}
            self._idle: set[int] = set()
            loop.add_reader(self._epoll.fileno(), self._ready)

        def watch(self, fd: int, wanted: int) -> None:
            known = self._watched.get(fd)
            if wanted == NOTHING:
                self._rest(fd, known)
            elif known != wanted or fd in self._idle:
                self._idle.discard(fd)
                self._register(fd, wanted)

        def _rest(self, fd: int, known: int | None) -> None:
            """Leave it in the set: it will be needed again, or be closed."""
            if known is None:
                return
            self._idle.add(fd)
            if known & WRITE:  # would be told of all the time
                self._register(fd, READ)

        def _register(self, fd: int, wanted: int) -> None:
            """Whatever stands behind the number of the file now is what is watched."""
            self._watched[fd] = wanted
            try:
                self._epoll.modify(fd, _TO_KERNEL[wanted])
            except FileNotFoundError:  # a new socket
                self._epoll.register(fd, _TO_KERNEL[wanted])
            except OSError:  # closed by now
                self._forget(fd)

        def _forget(self, fd: int) -> None:
            self._watched.pop(fd, None)
            self._idle.discard(fd)

        def _ready(self) -> None:
            told = []
            for fd, events in self._epoll.poll(0):
                if fd in self._idle:  # its server has closed it, or speaks without being asked
                    self._forget(fd)
                    with suppress(OSError):
                        self._epoll.unregister(fd)
                    continue
                can = WRITE if events & select.EPOLLOUT else 0
                if events & (select.EPOLLIN | _BROKEN):
                    can |= READ
                told.append((fd, can))
            if told:
                self._on_ready(told)

        def close(self) -> None:
            if not self._epoll.closed:
                self._loop.remove_reader(self._epoll.fileno())
                self._epoll.close()


class LoopSockets:
    """Each socket by the event loop itself."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_ready: OnReady) -> None:
        self._loop = loop
        self._on_ready = on_ready
        self._watched: dict[int, int] = {}

    def watch(self, fd: int, wanted: int) -> None:
        known = self._watched.pop(fd, NOTHING)
        if wanted & READ and not known & READ:
            self._loop.add_reader(fd, self._on_ready, [(fd, READ)])
        elif known & READ and not wanted & READ:
            self._loop.remove_reader(fd)
        if wanted & WRITE and not known & WRITE:
            self._loop.add_writer(fd, self._on_ready, [(fd, WRITE)])
        elif known & WRITE and not wanted & WRITE:
            self._loop.remove_writer(fd)
        if wanted:
            self._watched[fd] = wanted

    def close(self) -> None:
        for fd in list(self._watched):
            self.watch(fd, NOTHING)
