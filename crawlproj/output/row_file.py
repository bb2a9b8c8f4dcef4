"""A file whose rows are on disk, not only with the operating system, once they are saved.

Rows are taken into memory by the event loop and saved by whichever thread has the time: written,
synced, and forgotten only then. The event loop itself waits for the disk only if a megabyte has
gathered that nobody has saved. A disk that is full or fails costs
no row: `save()` raises, and the next one that can writes what is left. This module knows neither
Scrapy nor Redis.
"""

from __future__ import annotations

import errno
import io
import os
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable

SAVE_BEHIND_BYTES = 1 << 20
"""Rows are saved by then even if nobody asks for it, so that memory stays bounded."""

_NOTHING_TO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EROFS})
"""What pipes and terminals answer, and some file systems about folders."""

_sync_data = getattr(os, "fdatasync", os.fsync)  # not everywhere


class RowFile(io.BufferedIOBase):
    """One thread writes and closes, any may save.

    The file itself is opened by the first saving, so that whatever is wrong with the place is
    raised there too, with every row still in hand.
    """

    def __init__(self, open_file: Callable[[], IO[bytes]]) -> None:
        self._open_file = open_file
        self._file: IO[bytes] | None = None
        self._saving = threading.Lock()
        self._rows: deque[bytes] = deque()
        self._unsaved = b""
        self._written = 0
        self._closing = False
        self._opened_at_s = time.monotonic()
        self.size = 0
        """Bytes of all rows, saved or not."""
        self._saved_size = 0
        self.flush_encoder: Callable[[], None] = _nothing
        """Called before a save: moves what gzip still holds into this file."""

    def is_full(self, most_bytes: float, most_s: float) -> bool:
        """Whether it has grown, or grown old, enough for another to be begun."""
        return self.size >= most_bytes or time.monotonic() - self._opened_at_s >= most_s

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._rows.append(bytes(data))
        self.size += len(data)
        is_much = self.size - self._saved_size >= SAVE_BEHIND_BYTES
        if is_much and not self._saving.locked():
            with suppress(OSError):  # save() raises it to a caller who can wait
                self.save()
        return len(data)

    def save(self) -> None:
        """Have all rows on disk that were written before this call, or raise OSError."""
        with self._saving:
            if self.closed:
                return
            # In this order, for rows may come meanwhile, and the file be closed behind them.
            is_last, count = self._closing, len(self._rows)
            self._save_companion(is_last=is_last)
            rows = [self._rows.popleft() for _ in range(count)]
            self._unsaved = b"".join((self._unsaved, *rows))
            if self._file is None:
                self._file = self._open_file()
            if self._unsaved:
                self._put_on_disk(self._file.fileno(), is_new=not self._saved_size)
            if is_last:
                self._file.close()
                super().close()

    def close(self) -> None:
        """Save and close. After an OSError the file stays open: the next saving closes it."""
        self._closing = True
        self.save()

    def _save_companion(self, *, is_last: bool) -> None:
        """Have on disk what another file says of the rows that have been written so far, which must
        be there before they are; the last time, no more will come."""

    def _put_on_disk(self, number: int, *, is_new: bool) -> None:
        while self._written < len(self._unsaved):
            self._written += os.write(number, self._unsaved[self._written :])
        try:
            _sync(_sync_data, number)
            if is_new:
                _sync_folder_of(self._file)
        except OSError:
            # What a failed sync has dropped, the next one no longer misses: write it all again, and
            # in its place, for what is packed must not be there twice.
            with suppress(OSError):  # a pipe has no place
                os.ftruncate(number, os.lseek(number, -self._written, os.SEEK_CUR))
            self._written = 0
            raise
        self._saved_size += len(self._unsaved)
        self._unsaved, self._written = b"", 0


def open_with_folder(path: Path, mode: str) -> IO[bytes]:
    """Open a file for its rows, and make its folder if that is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return cast("IO[bytes]", path.open(mode))


def _nothing() -> None:
    """Rows come here as they are written."""


def _sync_folder_of(file: Any) -> None:
    """A new file is on disk when its name is."""
    folder = os.open(Path(file.name).parent, os.O_RDONLY)
    try:
        _sync(os.fsync, folder)
    finally:
        os.close(folder)


def _sync(sync: Callable[[int], None], number: int) -> None:
    try:
        sync(number)
    except OSError as error:
        if error.errno not in _NOTHING_TO_SYNC:
            raise
