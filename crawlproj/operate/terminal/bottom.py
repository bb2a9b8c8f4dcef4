"""A block of lines that stays at the bottom of a terminal while a log goes by above it.

Whatever is written goes over the block, which is put back behind it, in one write, so that nothing
flickers and nothing of it is left in the log. The cursor stays visible and is left
on a line of its own: a process that is killed leaves the terminal as it should be.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import TextIO

from rich.console import Console
from rich.text import Text

CLEAR_LINE, CLEAR_DOWN = "\x1b[K", "\x1b[J"
"""From the cursor on. Lines are written over each other: some terminals keep a screen that is
cleared as a whole in their history."""

USUAL_COLUMNS = 80


class BottomBlock:
    """A stream for whoever writes above, with a block below that is drawn anew again and again."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._block = ""
        self._widths: list[int] = []
        """Of the lines of the block, as they are written."""
        self._standing: list[int] = []
        """The same of what stands on the terminal."""
        self._is_at_start = True
        """Whether what was written above ends with a line break."""

    @property
    def width(self) -> int:
        """Columns that may be written to; the last one would wrap on some terminals."""
        return max(10, self._columns - 1)

    @property
    def _columns(self) -> int:
        with suppress(OSError):
            return os.get_terminal_size(self._stream.fileno()).columns
        return USUAL_COLUMNS

    def write(self, text: str) -> int:
        """Write above the block; below an unfinished line there is none."""
        with self._lock:
            self._is_at_start = text.endswith("\n") if text else self._is_at_start
            self._replace(text)
        return len(text)

    def flush(self) -> None:
        """Nothing waits: `write` has seen to it."""

    def draw(self, lines: Iterable[Text]) -> None:
        """Put these lines in the place of those before."""
        shown, width = list(lines), self.width
        with self._lock:
            self._block = _as_written(shown, width)
            self._widths = [min(width, line.cell_len) for line in shown]
            if self._is_at_start:
                self._replace("")

    def close(self) -> None:
        """Take the block away."""
        with self._lock:
            self._block, self._widths = "", []
            self._replace("")

    def _replace(self, text: str) -> None:
        """Write where the block stands, and the block behind it."""
        new = text + self._block if self._is_at_start else text
        if self._standing:
            # A terminal that has become narrower may have wrapped its lines.
            columns = max(1, self._columns)
            rows = sum(max(1, -(-width // columns)) for width in self._standing)
            new = f"\x1b[{rows}F" + new.replace("\n", f"{CLEAR_LINE}\n") + CLEAR_DOWN
        self._standing = self._widths if self._is_at_start else []
        self._stream.write(new)
        self._stream.flush()


def _as_written(lines: Iterable[Text], width: int) -> str:
    """With colours, if the terminal has them (NO_COLOR and TERM say so)."""
    console = Console(width=width, force_terminal=True, highlight=False, soft_wrap=True)
    with console.capture() as captured:
        for line in lines:
            console.print(line, no_wrap=True, overflow="ellipsis", crop=True)
    return captured.get()
