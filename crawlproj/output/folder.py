"""The folder of a crawl's files on this machine: one crawl's at a time.

When a new crawl begins, the files of the one before are moved aside, so that merging never mixes
two. Workers that start together agree by a lock on the folder.
"""

from __future__ import annotations

import fcntl
from pathlib import Path

_MARK = ".epoch"


def prepare(folder: Path, epoch: str) -> None:
    """Make the folder ready for this epoch; earlier files go to `earlier-<epoch>/` in it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark = folder / _MARK
        before = mark.read_text().strip() if mark.exists() else ""
        if before and before != epoch:
            _set_aside(folder, folder / f"earlier-{before}")
        mark.write_text(epoch)


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
