"""libcurl's transfers on the event loop: its sockets and its clock are watched, nothing blocks.

Knows easy handles as things that begin and end, and nothing of what they transfer.

libcurl calls back in the middle of its work, and must not be called from there. What is begun or
broken off by a callback is therefore put off until libcurl has returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pycurl

from crawlproj.fetch.sockets import NOTHING, READ, WRITE, Sockets, watch_sockets

Ended = Callable[[int, str], None]
"""Gets libcurl's error number, 0 for none, and its words for it."""

_EARLY_S = 0.0005
"""A clock of whole milliseconds may be early by this."""


class CurlLoop:
    """A multi handle: all transfers of a worker, and the connections kept for the next ones."""

    def __init__(self, most_kept: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._sockets: Sockets = watch_sockets(self._loop, self._on_ready)
        self._multi: Any = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, most_kept)
        self._ended: dict[Any, Ended] = {}
        self._is_inside = False
        self._put_off: list[tuple[Callable[[Any], None], Any]] = []
        self._due_s: float | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._is_called_soon = False

    def start(self, curl: Any, ended: Ended) -> None:
        """Begin a transfer; `ended` is called once it is over, unless it was stopped."""
        self._ended[curl] = ended
        self._do(self._add, curl)

    def stop(self, curl: Any) -> None:
        """Break a transfer off, at once."""
        if self._ended.pop(curl, None) is not None:
            self._do(self._remove, curl)

    def close(self) -> None:
        """Break everything off and close every connection."""
        for curl in list(self._ended):
            self.stop(curl)
        if self._alarm is not None:
            self._alarm.cancel()
        self._due_s = None
        self._multi.close()
        self._sockets.close()

    def _do(self, what: Callable[[Any], None], curl: Any) -> None:
        if self._is_inside:
            self._put_off.append((what, curl))
        else:
            what(curl)

    def _add(self, curl: Any) -> None:
        if curl in self._ended:
            self._multi.add_handle(curl)

    def _remove(self, curl: Any) -> None:
        if curl in self._multi:
            self._multi.remove_handle(curl)

    def _on_ready(self, sockets: list[tuple[int, int]]) -> None:
        for fd, can in sockets:
            self._act(fd, can)
        self._collect()

    def _act(self, fd: int, can: int) -> None:
        self._is_inside = True
        try:
            self._multi.socket_action(fd, can)
        finally:
            self._is_inside = False

    def _collect(self) -> None:
        """Take out what has ended, and do what was put off."""
        more = True
        while more:
            more, good, bad = self._multi.info_read()
            for curl in good:
                self._end(curl, 0, "")
            for curl, code, text in bad:
                self._end(curl, code, text)
        while self._put_off:
            what, curl = self._put_off.pop(0)
            what(curl)

    def _end(self, curl: Any, code: int, text: str) -> None:
        self._multi.remove_handle(curl)
        if ended := self._ended.pop(curl, None):
            ended(code, text)

    def _on_socket(self, what: int, fd: int, _multi: Any, _data: Any) -> None:
        self._sockets.watch(fd, NOTHING if what == pycurl.POLL_REMOVE else what & (READ | WRITE))

    def _on_timer(self, timeout_ms: int) -> None:
        """One alarm, never later than libcurl's: it is moved only to an earlier time, since most
        are moved on before they ring."""
        if timeout_ms < 0:
            self._due_s = None
        elif timeout_ms == 0:
            self._due_s = 0.0
            if not self._is_called_soon:
                self._is_called_soon = True
                self._loop.call_soon(self._ring_now)
        else:
            self._due_s = self._loop.time() + timeout_ms / 1000
            self._set_alarm(self._due_s)

    def _set_alarm(self, due_s: float) -> None:
        if self._alarm is not None:
            if self._alarm.when() <= due_s:
                return
            self._alarm.cancel()
        self._alarm = self._loop.call_at(due_s, self._ring)

    def _ring_now(self) -> None:
        self._is_called_soon = False
        self._run_out()

    def _ring(self) -> None:
        self._alarm = None
        self._run_out()

    def _run_out(self) -> None:
        if self._due_s is None:
            return
        if self._due_s > self._loop.time() + _EARLY_S:
            self._set_alarm(self._due_s)
            return
        self._due_s = None
        self._act(pycurl.SOCKET_TIMEOUT, 0)
        self._collect()
