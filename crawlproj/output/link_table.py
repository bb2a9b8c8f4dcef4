"""The files of the link table: `links-<worker>-<number>.jsonl.zst` in the crawl's folder.

Rows are taken into memory by the event loop; whoever saves, in a thread, packs them and has them on
disk, as row_file.py does. A file is one stream of zstd whose block is flushed at each saving: what
is on disk can be read as far as it goes, also where its worker was killed. Files are rotated as the
feeds are, and one of an earlier run is never added to.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from crawlproj.output.part_series import PartSeries

if TYPE_CHECKING:
    from backports import zstd
elif sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MEMBERS = ("target", "text", "rel")
"""What every link of a row has."""
PACKED = ".zst"
SUFFIX = f".jsonl{PACKED}"
LEVEL = 3
"""Of zstd: higher ones take twice the time for a tenth of the size."""

PACK_BEHIND_BYTES = 4 << 20
"""Rows are packed by then even if nobody saves, so that memory stays bounded."""


class LinkTable:
    """What one worker writes. One thread writes rows and closes, any may save."""

    def __init__(self, folder: Path, worker: str, *, rotate_bytes: float, rotate_s: float) -> None:
        self._parts = PartSeries(
            folder, f"links-{worker}", SUFFIX, rotate_bytes=rotate_bytes, rotate_s=rotate_s
        )
        self._parts.last_words = self._end_of_stream
        self._rows: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._saving = threading.RLock()
        self._stream = zstd.ZstdCompressor(LEVEL)

    def write(self, row: bytes) -> None:
        """Take in a row."""
        self._rows.append(row)
        self._waiting_bytes += len(row)
        # Who saves already packs them soon: nobody waits here for the disk.
        if self._waiting_bytes >= PACK_BEHIND_BYTES and self._saving.acquire(blocking=False):
            try:
                self._pack()
            finally:
                self._saving.release()

    def save(self) -> None:
        """Have all rows on disk that were written before this call, or raise OSError."""
        with self._saving:
            self._pack()
            self._parts.save()

    def close(self) -> None:
        """Save, and end the file."""
        with self._saving:
            self._pack()
            self._parts.end_part()
            self.save()

    def _pack(self) -> None:
        if not self._rows:
            return
        if not self._parts.is_begun:
            self._stream = zstd.ZstdCompressor(LEVEL)
        rows = [self._rows.popleft() for _ in range(len(self._rows))]
        self._waiting_bytes = 0
        self._parts.write(self._stream.compress(b"".join(rows), self._stream.FLUSH_BLOCK))

    def _end_of_stream(self) -> bytes:
        return self._stream.flush(self._stream.FLUSH_FRAME)


def lines_of(part: Path) -> Iterator[bytes]:
    """The lines of a file as far as it goes; the last may be torn."""
    rest = b""
    with part.open("rb") as file:
        if part.suffix != PACKED:
            yield from file
            return
        for piece in _unpacked(file):
            *lines, rest = (rest + piece).split(b"\n")
            yield from (line + b"\n" for line in lines)
    if rest:
        yield rest


def _unpacked(file: IO[bytes]) -> Iterator[bytes]:
    stream: Any = zstd.ZstdDecompressor()
    try:
        while piece := file.read(1 << 16):
            while piece:
                yield stream.decompress(piece)
                piece = stream.unused_data if stream.eof else b""
                if stream.eof:
                    stream = zstd.ZstdDecompressor()
    except zstd.ZstdError:
        return  # what was written after a machine's power was cut is anything


def read_row(line: bytes) -> dict[str, Any] | None:
    """A row as it was written; None for one that is torn, or none of ours."""
    if not line.endswith(b"\n"):
        return None
    try:
        row = json.loads(line)
        is_ours = isinstance(row["source"], str) and all(
            isinstance(link[name], str) for link in row["links"] for name in MEMBERS
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return row if is_ours else None
