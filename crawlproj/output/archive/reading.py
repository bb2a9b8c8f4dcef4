"""Reads WARC files, whoever wrote them, record by record, in bounded memory.

What is damaged is named by its place, and reading goes on with the next record. A record that ends
where its file does, and what follows the last good one, is a torn tail: its worker was killed.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

PIECE = 1 << 16
MOST_HEADER_BYTES = 1 << 16
"""Of the headers of a record."""
MOST_HEAD_BYTES = 1 << 20
"""Of the headers of a response within a record."""

_MAGIC = b"\x1f\x8b\x08"
_GZIP = 31
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/\S+ (\d{3})")
_SIZE = re.compile(r"\d{1,15}")


class Damage(NamedTuple):
    """What is wrong with a file, from an offset on."""

    offset: int
    what: str
    is_torn: bool = False
    """Whether no record follows."""


class BadRecord(Exception):
    """It is not as WARC says."""


class Head(NamedTuple):
    """The beginning of a response."""

    status: str
    headers: dict[str, str]


class _Source:
    """Gzip members, one after the other."""

    def __init__(self, file: IO[bytes], offset: int = 0) -> None:
        file.seek(offset)
        self._file = file
        self._packed = file.read(PIECE)
        self._member = zlib.decompressobj(_GZIP)
        self.offset = offset
        """Of what has not been unpacked yet."""

    @property
    def is_at_end(self) -> bool:
        return not self._packed

    def begin(self) -> None:
        self._member = zlib.decompressobj(_GZIP)

    def piece(self) -> bytes:
        """Some of the member; b"" at its end."""
        member = self._member
        while not member.eof:
            given = self._packed
            unpacked = member.decompress(given, PIECE)
            left = member.unused_data if member.eof else member.unconsumed_tail
            self.offset += len(given) - len(left)
            self._packed = left or self._file.read(PIECE)
            if unpacked:
                return unpacked
            if not given and not member.eof:
                raise EOFError("it ends in the middle of a record")
        return b""


class Record:
    """One record. Read what is wanted of its block; `finish` goes to its end."""

    def __init__(self, source: _Source) -> None:
        self.offset = source.offset
        self.length = 0
        """In the file; known once it is finished."""
        self.damage = ""
        self.is_cut_off = False
        self.headers: dict[str, str] = {}
        self._source = source
        self._rest = b""
        self._left = 0
        self._is_finished = False
        source.begin()
        with _Noting(self):
            self._read_headers()

    @property
    def type(self) -> str:
        return self.headers.get("warc-type", "")

    @property
    def url(self) -> str:
        return self.headers.get("warc-target-uri", "").strip("<>")

    def read(self) -> bytes:
        """Some of the block; b"" at its end, or where it is damaged."""
        with _Noting(self):
            if self._left and not self.damage:
                self._rest = self._rest or self._more()
                piece, self._rest = self._rest[: self._left], self._rest[self._left :]
                self._left -= len(piece)
                return piece
        return b""

    def read_head(self) -> bytes:
        """The headers of the request or response that the block is, with the empty line."""
        head = b""
        while len(head) < MOST_HEAD_BYTES and (piece := self.read()):
            head += piece
            if end := _END_OF_HEAD.search(head, max(0, len(head) - len(piece) - 3)):
                self._rest = head[end.end() :] + self._rest
                self._left += len(head) - end.end()
                return head[: end.end()]
        return head

    def finish(self) -> None:
        """Go to the end, and see that it is one."""
        while self.read():
            pass
        if self._is_finished:
            return
        self._is_finished = True
        with _Noting(self):
            while not self.damage and (piece := self._source.piece()):
                self._rest += piece
                if len(self._rest) > PIECE * 2:
                    raise BadRecord("more follows than its Content-Length says")
            if not self.damage and self._rest.strip(b"\r\n"):
                raise BadRecord("more follows than its Content-Length says")
        self.length = self._source.offset - self.offset

    def _more(self) -> bytes:
        if piece := self._source.piece():
            return piece
        raise BadRecord("it is shorter than its Content-Length says")

    def _read_headers(self) -> None:
        text = b""
        while (end := _END_OF_HEAD.search(text)) is None:
            if len(text) > MOST_HEADER_BYTES:
                raise BadRecord("its headers do not end")
            text += self._more()
            if not text.startswith(b"WARC/1."[: len(text)]):
                raise BadRecord("it is no WARC record")
        self._rest = text[end.end() :]
        for line in text[: end.start()].decode("utf-8", "replace").split("\n")[1:]:
            name, _, value = line.partition(":")
            self.headers.setdefault(name.strip().lower(), value.strip())
        size = self.headers.get("content-length", "")
        if not _SIZE.fullmatch(size):
            raise BadRecord("it has no Content-Length")
        self._left = int(size)


class _Noting:
    """Whatever is wrong with a record is its damage, not an exception."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> bool:
        if kind is None or not issubclass(kind, (BadRecord, EOFError, zlib.error)):
            return False
        packing = "its gzip is damaged" if issubclass(kind, zlib.error) else ""
        self._record.damage = packing or str(error)
        self._record.is_cut_off = issubclass(kind, EOFError)
        return True


def walk(file: IO[bytes]) -> Iterator[Record | Damage]:
    """The records of a file; each is finished when the next is asked for. Damage is told where it
    is, after the record that has it, if that could be begun."""
    source = _Source(file)
    while not source.is_at_end:
        record = Record(source)
        if record.headers and not record.damage:
            yield record
        record.finish()
        if record.damage:
            after = None if record.is_cut_off else _next_record(file, record.offset + 1)
            yield Damage(record.offset, record.damage, is_torn=after is None)
            if after is None:
                return
            source = _Source(file, after)


def record_at(file: IO[bytes], offset: int) -> Record:
    """The record that begins there."""
    return Record(_Source(file, offset))


def torn_from(path: Path) -> int | None:
    """Where the torn tail of a file begins; None if it has none."""
    with path.open("rb") as file:
        for found in walk(file):
            if isinstance(found, Damage) and found.is_torn:
                return found.offset
    return None


def _next_record(file: IO[bytes], offset: int) -> int | None:
    """Where after an offset a record begins."""
    file.seek(offset)
    begin, window = offset, file.read(PIECE)
    while window:
        at = window.find(_MAGIC)
        while at >= 0:
            if _begins(file, begin + at):
                return begin + at
            at = window.find(_MAGIC, at + 1)
        kept = len(_MAGIC) - 1
        begin += max(1, len(window) - kept) if len(window) > kept else len(window)
        file.seek(begin)
        window = file.read(PIECE) if len(window) > kept else b""
    return None


def _begins(file: IO[bytes], offset: int) -> bool:
    file.seek(offset)
    try:
        return zlib.decompressobj(_GZIP).decompress(file.read(1024), 7) == b"WARC/1."
    except zlib.error:
        return False


def parsed(head: bytes) -> Head:
    """Status and headers of a response; of a header that is there twice, the first."""
    status = _STATUS.match(head)
    headers: dict[str, str] = {}
    for line in head.decode("latin-1").split("\n")[1:]:
        name, _, value = line.partition(":")
        headers.setdefault(name.strip().lower(), value.strip())
    return Head(status[1].decode() if status else "", headers)
