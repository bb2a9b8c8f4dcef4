"""The folder of a crawl's files on this machine: one crawl's at a time.

When a new crawl begins, the files of the one before are moved aside, so that merging never mixes
two. Workers that start together agree by a lock on the folder.
"""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

_MARK, _LOCK = ".epoch", ".lock"


def prepare(folder: Path, epoch: str) -> None:
    """Make the folder ready for this epoch; earlier files go to `earlier-<epoch>/` in it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark = folder / _MARK
        before = mark.read_text().strip() if mark.exists() else ""
        if before and before != epoch:
            _set_aside(folder, folder / f"earlier-{before}")
        mark.write_text(epoch)


@asynccontextmanager
async def turn(folder: Path) -> AsyncIterator[None]:
    """One worker at a time: what it reads inside is no older than what the one before has read."""
    with (folder / _LOCK).open("w") as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        yield


def _set_aside(folder: Path, to: Path) -> None:
    # Logs stay: those of the crawl that begins are being written already.
    files = [
        path
        for path in folder.iterdir()
        if path.is_file() and path.name[0] != "." and path.suffix != ".log"
    ]
    if files:
        to.mkdir(exist_ok=True)
    for path in files:
        path.rename(to / path.name)
