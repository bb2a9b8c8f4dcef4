"""Files that are there whole or not at all, for whoever looks and whatever fails."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: Path, *, sync: bool = False) -> Iterator[Path]:
    """Where to write a file, or what shall replace it: it has its name when all is written, and is
    gone if that fails. With `sync` it is on disk before it has its name: without, a machine that
    loses its power may leave it empty."""
    unfinished = unfinished_of(path)
    unfinished.unlink(missing_ok=True)  # of a process of the same number that was killed
    try:
        yield unfinished
        if sync:
            with unfinished.open("rb") as file:
                os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_whole(path: Path, text: str, *, sync: bool = False) -> None:
    """Write a text file, or replace it."""
    with written_whole(path, sync=sync) as unfinished:
        unfinished.write_text(text, encoding="utf-8", errors="replace")


def unfinished_of(path: Path) -> Path:
    """Where a file is written before it has its name. Each process has one of its own: the workers
    of a machine may write the same file at the same moment."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def remove_unfinished(path: Path) -> None:
    """Remove what processes that were killed have left of a file; for those who know that no other
    is writing it."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.[0-9]*"):
        left.unlink(missing_ok=True)
