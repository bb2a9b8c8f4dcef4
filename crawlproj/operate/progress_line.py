"""A line on the terminal that says what a long command is at. Elsewhere nothing is written."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from crawlproj.operate.plain_text import in_one_line, is_terminal
from crawlproj.operate.terminal.plot import bar
from crawlproj.output.watching import HasProgress, Watch, unwatched

QUIET_S = 0.5
"""What is done by then needs no line."""
EVERY_S = 0.2
BAR = 20
CLEARED = "\r\x1b[2K"


class _Line:
    """The line, drawn anew by a thread of its own while the main one works."""

    def __init__(self) -> None:
        self._what = ""
        self._work: HasProgress | None = None
        self._since = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def watch(self, what: str, work: HasProgress) -> None:
        self._what, self._work = what, work

    def count(self, what: str, number: int) -> None:
        self._what = f"{what} {number:,}"

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _draw(self) -> None:
        drawn = False
        wait_s = QUIET_S
        while not self._ended.wait(wait_s):
            text = f"{in_one_line(self._what)} {self._bar()}{time.monotonic() - self._since:.0f} s"
            text = text[: shutil.get_terminal_size().columns - 1]
            print(f"{CLEARED}{text}", end="", file=sys.stderr, flush=True)
            drawn, wait_s = True, EVERY_S
        if drawn:
            print(CLEARED, end="", file=sys.stderr, flush=True)

    def _bar(self) -> str:
        """How far it is with the present step, as far as that is known."""
        if self._work is None:
            return ""
        share = self._work.progress()
        return f"▕{bar(share, BAR):<{BAR}}▏{share:4.0%}  "


@contextmanager
def progress() -> Iterator[Watch]:
    """What is to be told of each step, with who takes it."""
    with _line() as line:
        yield unwatched if line is None else line.watch


@contextmanager
def counting(what: str) -> Iterator[Callable[[int], None]]:
    """What is to be told how many there were so far, where nobody knows how many there will be."""
    with _line() as line:
        yield (lambda number: line.count(what, number)) if line is not None else (lambda _: None)


@contextmanager
def _line() -> Iterator[_Line | None]:
    if not is_terminal(sys.stderr):
        yield None
        return
    line = _Line()
    line.start()
    try:
        yield line
    finally:
        line.end()
