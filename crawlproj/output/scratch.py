"""Folders for temporary files that go with their process, however that ends: what one that was
killed has left is removed by the next. A lock says whose owner lives."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PREFIX = "crawlproj-"
LOCK = ".owner"
YOUNG_S = 60.0
"""For that long a folder is left alone: its owner may be about to lock it."""


class Scratch:
    """A folder of this process, with that word in its name."""

    def __init__(self, word: str) -> None:
        _remove_abandoned()
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{word}-"))
        self._lock = (self.path / LOCK).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        """Remove it, with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _remove_abandoned() -> None:
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
        # Of another user's, or gone meanwhile; BlockingIOError: its owner lives.
        with suppress(OSError), lock.open("r+") as file:
            if time.time() - lock.stat().st_mtime >= YOUNG_S:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
