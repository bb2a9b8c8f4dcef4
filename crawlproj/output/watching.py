"""How whoever does something long tells how far it is. Pure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO, Protocol, TypeAlias


class HasProgress(Protocol):
    """Something long; may be asked from any thread."""

    def progress(self) -> float:
        """How much of it is done, from 0 to 1."""


Watch: TypeAlias = Callable[[str, HasProgress], None]
"""Is told of each step, with what takes it."""


def unwatched(_: str, __: HasProgress) -> None:
    """Nobody looks."""


class ReadingFile:
    """A file that is read from its beginning to its end."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._bytes = max(1, path.stat().st_size)
        self._file = file

    def progress(self) -> float:
        try:
            return min(1.0, self._file.tell() / self._bytes)
        except ValueError:  # it is closed: all of it was read
            return 1.0


class Steps:
    """Something that is done in steps of known number."""

    def __init__(self, total: int) -> None:
        self.total = max(1, total)
        self.done = 0

    def step(self) -> None:
        """One more is done."""
        self.done += 1

    def progress(self) -> float:
        return min(1.0, self.done / self.total)
