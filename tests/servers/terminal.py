"""A terminal for tests: a real pseudo-terminal, and what a person would see on it (pyte)."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import termios
import threading
from pathlib import Path
from typing import Self

import pyte

from tests.servers import scrapy_process
from tests.servers.redis import wait_for


class Terminal:
    """`scrapy WORDS` on a terminal of that size. As a context manager it ends the command."""

    def __init__(
        self, words: list[str], env: dict[str, str], cwd: Path, columns: int = 100, rows: int = 40
    ) -> None:
        self._master, slave = pty.openpty()
        self._screen = pyte.HistoryScreen(columns, rows, history=10_000)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self.written = b""
        self._set_size(columns, rows)
        self.before = termios.tcgetattr(slave)
        known = {name: value for name, value in env.items() if name not in ("COLUMNS", "LINES")}
        env = {**known, "TERM": "xterm-256color"}
        self.process = scrapy_process.start(
            words, env, cwd, stdin=slave, stdout=slave, stderr=slave
        )
        self._slave = slave
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._slave)
        self._reader.join()
        os.close(self._master)

    @property
    def lines(self) -> list[str]:
        """What stands on the screen."""
        with self._lock:
            return [line.rstrip() for line in self._screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def scrolled_off(self) -> str:
        """What has left the screen at the top."""
        with self._lock:
            width = self._screen.columns
            top = self._screen.history.top
            return "\n".join("".join(row[n].data for n in range(width)).rstrip() for row in top)

    @property
    def mode(self) -> list[object]:
        """How the terminal is set: as `before`, once a command has left it."""
        return termios.tcgetattr(self._slave)

    def wait_for(self, text: str) -> None:
        try:
            wait_for(lambda: text in self.text, f"{text!r} on the screen")
        except TimeoutError as error:
            raise AssertionError(f"{error}; there is:\n{self.text}") from None

    def wait_until_gone(self, text: str) -> None:
        wait_for(lambda: text not in self.text, f"no more {text!r} on the screen")

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        with self._lock:
            self._screen.resize(rows, columns)
        self._set_size(columns, rows)
        # The kernel tells the foreground of a controlling terminal, which this is not.
        self.process.send_signal(signal.SIGWINCH)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:  # nobody has the other end open any more
                return
            if not data:
                return
            with self._lock:
                self.written += data
                self._stream.feed(data)
