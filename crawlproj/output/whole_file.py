"""Text files that are there whole or not at all, for whoever looks and whatever fails."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str, *, sync: bool = False) -> None:
    """Write a file, or replace it. With `sync` its text is on disk before it has its name: without,
    a machine that loses its power may leave it empty."""
    unfinished = unfinished_of(path)
    try:
        with unfinished.open("w", encoding="utf-8", errors="replace") as file:
            file.write(text)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def unfinished_of(path: Path) -> Path:
    """Where a file is written before it has its name. Each process has one of its own: the workers
    of a machine may write the same file at the same moment."""
    return path.with_name(f".{path.name}.{os.getpid()}")
