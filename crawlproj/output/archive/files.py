"""The WARC files of one worker: `<crawl>-<time>-<number>-<worker>.warc.gz` in `archive/`.

Exchanges are taken into memory by the event loop; whoever saves, in a thread, packs them and has
them on disk. Beside a file that is being written lies `.<its name>.open`, locked by its writer, and
gone when the file is complete. So a file belongs to who holds that lock; where nobody does, its
worker was killed, and whoever comes next may cut off what it left half-written. A worker never adds
to a file of another run.

The same payload again is written as a `revisit`. It refers to a record that lies before it in the
same file, or to one that was on disk before others were told of it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO, Protocol

from crawlproj.output.archive import reading, records
from crawlproj.output.archive.records import Capture, Original
from crawlproj.output.row_file import RowFile

logger = logging.getLogger(__name__)

SUFFIX = ".warc.gz"
MOST_WAITING_BYTES = 64 << 20
"""Of exchanges that are not on disk yet; then no more pages are begun."""

LEAST_REVISIT_BYTES = 512
"""Smaller payloads are written again: a revisit would not be smaller."""


class Originals(Protocol):
    """What the whole crawl knows of payloads by their SHA-256 (originals.py)."""

    def find(self, digests: list[bytes]) -> dict[bytes, Original]: ...

    def keep(self, found: dict[bytes, Original]) -> None: ...


class ArchiveFiles:
    """What one worker writes. One thread adds and closes, any may save."""

    def __init__(
        self,
        folder: Path,
        crawl: str,
        worker: str,
        about: Mapping[str, str],
        *,
        rotate_bytes: float,
        originals: Originals | None = None,
    ) -> None:
        self._folder, self._crawl, self._worker = folder, crawl, worker
        self._about = about
        self._rotate_bytes = rotate_bytes
        self._originals = originals
        self._captures: deque[Capture] = deque()
        self._saving = threading.Lock()
        self._file: RowFile | None = None
        self._mark: IO[bytes] | None = None
        self._number = 0
        self._new: dict[bytes, Original] = {}
        self._added_bytes = self._packed_bytes = self._saved_bytes = 0
        self.exchanges = self.revisits = self.spared_bytes = self.file_bytes = 0

    def add(self, capture: Capture) -> None:
        """Take in an exchange."""
        self._captures.append(capture)
        self._added_bytes += capture.size

    @property
    def is_behind(self) -> bool:
        """Whether so much waits for the disk that no more should come."""
        return self._added_bytes - self._saved_bytes > MOST_WAITING_BYTES

    def save(self) -> None:
        """Have on disk what was added before this call, or raise OSError."""
        with self._saving:
            self._save(self._originals)

    def close(self) -> None:
        """Save, and end the file; asks nobody about payloads."""
        with self._saving:
            self._save(None)
            self._end_file()

    def _save(self, originals: Originals | None) -> None:
        if self._captures:
            file = self._file or self._begin_file()
            self._pack(file, originals)
        if self._file is None:
            return
        self._file.save()
        self._saved_bytes = self._packed_bytes
        if self._new and originals is not None:
            originals.keep(self._new)
            self._new = {}
        if self._file.size >= self._rotate_bytes:
            self._end_file()

    def _pack(self, file: RowFile, originals: Originals | None) -> None:
        """Each is let go once it is written: whatever is raised before, the next saving has it."""
        captures = list(self._captures)
        digests = [sha256(one.body).digest() for one in captures]
        asked = {
            digest
            for one, digest in zip(captures, digests, strict=True)
            if _may_repeat(one) and digest not in self._new
        }
        known = originals.find(list(asked)) if originals is not None and asked else {}
        for one, digest in zip(captures, digests, strict=True):
            original = None
            if self._originals is not None and _may_repeat(one):
                original = self._new.get(digest) or known.get(digest)
            self.file_bytes += file.write(records.exchange(one, digest, original))
            self._captures.popleft()
            if self._originals is not None and _may_repeat(one) and original is None:
                self._new[digest] = Original(one.url, one.at_s)
            self.exchanges += 1
            self.revisits += original is not None
            self.spared_bytes += len(one.body) if original is not None else 0
            self._packed_bytes += one.size

    # Files

    def _begin_file(self) -> RowFile:
        self._folder.mkdir(parents=True, exist_ok=True)
        if not self._number:
            cut_torn_tails(self._folder)
        now_s = time.time()
        stamp = time.strftime("%Y%m%d%H%M%S", time.gmtime(now_s))
        while True:
            self._number += 1
            path = self._folder / f"{self._crawl}-{stamp}-{self._number:05d}-{self._worker}{SUFFIX}"
            if opened := _opened(path):
                break
        self._mark, data = opened
        self._file = RowFile(lambda: data)
        self._file.write(records.warcinfo(path.name, now_s, self._about))
        return self._file

    def _end_file(self) -> None:
        """It is on disk: complete it. Another is begun when there is something to write."""
        if self._file is None:
            return
        self._file.close()
        self._file = None
        # A payload of this file that nobody could be told of is not known to the next.
        self._new = {}
        if self._mark is not None:
            Path(self._mark.name).unlink(missing_ok=True)
            self._mark.close()
            self._mark = None


def _opened(path: Path) -> tuple[IO[bytes], IO[bytes]] | None:
    """The mark of a new file, locked, and the file; None if there is one of this name."""
    try:
        mark = _mark_of(path).open("xb")
    except FileExistsError:
        return None
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(mark.fileno()).st_nlink:  # else somebody has just cleared it away
            return mark, path.open("xb")
    except (FileExistsError, BlockingIOError):
        Path(mark.name).unlink(missing_ok=True)
    except OSError:
        Path(mark.name).unlink(missing_ok=True)
        mark.close()
        raise
    mark.close()
    return None


def _may_repeat(capture: Capture) -> bool:
    return len(capture.body) >= LEAST_REVISIT_BYTES and not capture.truncated


def files_of(folder: Path) -> list[Path]:
    """The WARC files of an archive, in the order of their names."""
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if path.name[0] != ".")


def is_being_written(file: Path) -> bool:
    """Whether a worker is still at work on it."""
    with _owner_gone(_mark_of(file)) as is_gone:
        return not is_gone


def cut_torn_tails(folder: Path) -> dict[Path, int]:
    """Complete the files of workers that were killed: returns those that something was cut off of,
    and where. To be called before anything else is done with an archive."""
    cut = {}
    for mark in folder.glob(f".*{SUFFIX}.open"):
        with _owner_gone(mark) as is_gone:
            if not is_gone:
                continue
            file = folder / mark.name[1:].removesuffix(".open")
            if file.exists() and (end := _cut(file)) is not None:
                logger.warning("%s: what its worker left half-written is cut off at %d", file, end)
                cut[file] = end
            mark.unlink(missing_ok=True)
    return cut


def _cut(file: Path) -> int | None:
    """Cut off what is torn at its end; returns where, None if nothing is."""
    end = reading.torn_from(file)
    if end is None:
        return None
    if end == 0:
        file.unlink()
        return 0
    with file.open("r+b") as opened:
        opened.truncate(end)
        os.fsync(opened.fileno())
    return end


def _mark_of(file: Path) -> Path:
    return file.with_name(f".{file.name}.open")


@contextmanager
def _owner_gone(mark: Path) -> Iterator[bool]:
    """Whether nobody is at work on a file, which then stays so within."""
    try:
        opened = mark.open("rb")
    except FileNotFoundError:
        yield True
        return
    with opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
