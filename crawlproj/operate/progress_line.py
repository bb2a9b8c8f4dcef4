"""A line on the terminal that says what a long command is at. Elsewhere nothing is written."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crawlproj.output.database import Database

QUIET_S = 0.5
"""What is done by then needs no line."""
EVERY_S = 0.2
BAR = 20
CLEARED = "\r\x1b[2K"


class _Line:
    """The line, drawn anew by a thread of its own while the main one waits for DuckDB."""

    def __init__(self) -> None:
        self._what = ""
        self._database: Database | None = None
        self._since = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def watch(self, what: str, database: Database) -> None:
        self._what, self._database = what, database

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _draw(self) -> None:
        drawn = False
        wait_s = QUIET_S
        while not self._ended.wait(wait_s):
            text = f"{self._what} {self._bar()} {time.monotonic() - self._since:.0f} s"
            text = text[: shutil.get_terminal_size().columns - 1]
            print(f"{CLEARED}{text}", end="", file=sys.stderr, flush=True)
            drawn, wait_s = True, EVERY_S
        if drawn:
            print(CLEARED, end="", file=sys.stderr, flush=True)

    def _bar(self) -> str:
        """How far DuckDB is with what it does at the moment, as far as it can tell."""
        share = self._database.progress() if self._database else 0.0
        done = round(BAR * share)
        return f"[{'#' * done}{'.' * (BAR - done)}] {share:4.0%}"


@contextmanager
def progress() -> Iterator[Callable[[str, Database], None]]:
    """What is to be told of each step, with the database that takes it."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    line = _Line()
    line.start()
    try:
        yield line.watch
    finally:
        line.end()
