"""The parts that one worker writes of a kind: `<kind>-<worker>-<number>.<suffix>`, one after the
other.

A part that is full, or old, is ended when it is saved next, and another begins with the next row. A
part of an earlier run is never added to. The feeds have rules of their own (`feeds.py`); the link
table, the attributes and what is extracted go by this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO

from crawlproj.output.row_file import RowFile, open_with_folder


def _nothing() -> bytes:
    return b""


class PartSeries:
    """For one thread at a time: whoever shares it has a lock of its own."""

    def __init__(
        self, folder: Path, stem: str, suffix: str, *, rotate_bytes: float, rotate_s: float
    ) -> None:
        self._folder, self._stem, self._suffix = folder, stem, suffix
        self._rotate_bytes, self._rotate_s = rotate_bytes, rotate_s
        self._number = 0
        self._part: RowFile | None = None
        self._ended: deque[RowFile] = deque()
        self.last_words: Callable[[], bytes] = _nothing
        """What a part ends with."""

    @property
    def is_begun(self) -> bool:
        """False if the next row begins a part."""
        return self._part is not None

    def write(self, rows: bytes) -> None:
        """Take in rows; they are on disk when they are saved."""
        if self._part is None:
            self._part = RowFile(self._open)
        self._part.write(rows)

    def save(self) -> None:
        """Have all rows on disk, or raise OSError."""
        if self._part is not None and self._part.is_full(self._rotate_bytes, self._rotate_s):
            self.end_part()
        while self._ended:
            self._ended[0].close()
            self._ended.popleft()
        if self._part is not None:
            self._part.save()

    def end_part(self) -> None:
        """The next row begins another part; this one is closed once it is saved."""
        if self._part is not None:
            self._part.write(self.last_words())
            self._ended.append(self._part)
            self._part = None

    def _open(self) -> IO[bytes]:
        while True:
            self._number += 1
            name = f"{self._stem}-{self._number:04d}{self._suffix}"
            try:
                return open_with_folder(self._folder / name, "xb")
            except FileExistsError:
                continue
