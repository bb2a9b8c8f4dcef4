"""More rows than memory has room for, sorted: buckets on disk, each small enough to be sorted."""

from __future__ import annotations

import heapq
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from zlib import crc32

import msgpack

from crawlproj.output.parts import FAILURES, FORGOTTEN, PAGES_CSV, PAGES_JSONL, Kind, Row

BUCKET_BYTES = 16 << 20
# Chance, and the key beside each row, make some larger than was meant.
MOST_BUCKET_BYTES = 4 * BUCKET_BYTES
# Each is an open file while they are merged: more than this and common limits are in the way.
MOST_BUCKETS = 200
READ_BYTES = 64 << 10
LARGEST_HASH = 2**32


class Buckets:
    """Rows on disk, dealt out by the hash of their keys: rows of one URL meet in one bucket.

    `divisor` is what the hash is divided by first, so that smaller buckets are dealt to by digits
    of it that have not been used.
    """

    def __init__(self, folder: Path, size: int, divisor: int = 1) -> None:
        self.folder = folder
        self.count = min(MOST_BUCKETS, 1 + size // BUCKET_BYTES)
        self._divisor = divisor

    def deal(self, kind: Kind, rows: Iterable[Row]) -> None:
        with ExitStack() as files:
            buckets = [
                files.enter_context(self._path(kind, number, "dealt").open("wb"))
                for number in range(self.count)
            ]
            for row in rows:
                digits = crc32(row.key.encode("utf-8", "surrogatepass")) // self._divisor
                buckets[digits % self.count].write(_packed(row))

    def dealt_again(self, kind: Kind, number: int) -> Buckets | None:
        """Smaller buckets with the rows of one that is too large; None if it is not, or if no
        digits are left: then they are of few URLs, of each of which one row is kept."""
        size = self._path(kind, number, "dealt").stat().st_size
        divisor = self._divisor * self.count
        if size <= MOST_BUCKET_BYTES or divisor >= LARGEST_HASH:
            return None
        folder = self.folder / f"{kind.file}.{number}"
        folder.mkdir()
        smaller = Buckets(folder, size, divisor)
        smaller.deal(kind, self.dealt(kind, number))
        return smaller

    def remove(self) -> None:
        shutil.rmtree(self.folder)

    def dealt(self, kind: Kind, number: int) -> Iterator[Row]:
        return self._read(self._path(kind, number, "dealt"))

    def put_sorted(self, kind: Kind, number: int, rows: Iterable[Row]) -> None:
        with self._path(kind, number, "sorted").open("wb") as bucket:
            bucket.writelines(map(_packed, rows))
        self._path(kind, number, "dealt").unlink()

    def better_known(self, kind: Kind, number: int) -> Iterator[Row]:
        """What may make up for the failures of a bucket: its pages, which are sorted by now, and
        what was forgotten. Of other kinds nothing is better known."""
        if kind is not FAILURES:
            return iter(())
        pages = (self._sorted(kind, number) for kind in (PAGES_CSV, PAGES_JSONL))
        return chain(*pages, self.dealt(FORGOTTEN, number))

    def merged(self, kind: Kind) -> Iterator[Row]:
        return heapq.merge(*(self._sorted(kind, number) for number in range(self.count)))

    def _sorted(self, kind: Kind, number: int) -> Iterator[Row]:
        return self._read(self._path(kind, number, "sorted"))

    def _path(self, kind: Kind, number: int, stage: str) -> Path:
        return self.folder / f"{kind.file}.{number}.{stage}"

    def _read(self, path: Path) -> Iterator[Row]:
        with path.open("rb") as bucket:
            rows = msgpack.Unpacker(bucket, read_size=READ_BYTES, unicode_errors="surrogatepass")
            yield from map(Row._make, rows)


def _packed(row: Row) -> bytes:
    packed: bytes = msgpack.packb(row, unicode_errors="surrogatepass")
    return packed
