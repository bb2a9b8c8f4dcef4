"""Content encodings undone: gzip, deflate, br and zstd, in one piece and never beyond a limit.

What was truncated is unpacked as far as it goes. Knows bytes only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Protocol

import brotli  # type: ignore[import-untyped]

try:  # in half the time
    from isal import isal_zlib as zlib
except ImportError:  # not for this machine
    import zlib  # type: ignore[no-redef]

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ACCEPTED = b"gzip, deflate, br, zstd"
"""For Accept-Encoding: what is undone here."""

MOST_ENCODINGS = 2
"""Encodings on top of each other; more serve nobody but who wants us busy."""

MOST_PARTS = 1000
"""Members of gzip or frames of zstd in a body, for the same reason: each costs time, even if it is
empty."""

WINDOW_BYTES = 64 * 1024
NO_LIMIT = sys.maxsize - 1
_GZIP, _ZLIB, _RAW = 31, 15, -15
"""zlib: what stands before the data."""


class _Part(Protocol):
    """A member of gzip or a frame of zstd that is being unpacked."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: memoryview, max_length: int, /) -> bytes: ...


class TooLarge(Exception):
    """Unpacked, a body is larger than it may be."""


class Unreadable(Exception):
    """A body that is not in the encoding that it is said to be in."""


def unpack(body: bytes, encodings: Iterable[bytes], most_bytes: int) -> tuple[bytes, list[bytes]]:
    """A body without its encodings, given as its headers have them, and those that are left: the
    ones that stand inside of one that nobody knows here. A limit of 0 is none."""
    names = [name.strip().lower() for value in encodings for name in value.split(b",")]
    if len(names) > MOST_ENCODINGS:
        raise Unreadable(f"more than {MOST_ENCODINGS} content encodings: {names[:9]!r}")
    while names and (codec := _CODECS.get(names[-1])):
        try:
            body = codec(body, most_bytes or NO_LIMIT)
        except TooLarge:
            raise
        except Exception as error:  # each codec has its own
            raise Unreadable(f"not {names[-1][:40]!r}: {error}") from error
        names.pop()
    return body, names


def _whole(body: bytes, _: int) -> bytes:
    return body


def _gunzip(body: bytes, most: int) -> bytes:
    """All members of a file; what follows the last one is left alone."""
    return _unpack_parts(body, most, lambda: zlib.decompressobj(_GZIP), b"\x1f\x8b")


def _unpack_parts(body: bytes, most: int, begin: Callable[[], _Part], mark: bytes) -> bytes:
    """Parts that follow each other, each beginning with the mark. A part is given a window of the
    body at a time, for it makes a copy of what it leaves of that."""
    view, at = memoryview(body), 0
    pieces: list[bytes] = []
    room = most
    for _ in range(MOST_PARTS):
        part = begin()
        while not part.eof and at < len(body):
            window = view[at : at + WINDOW_BYTES]
            pieces.append(part.decompress(window, room + 1))
            room -= len(pieces[-1])
            if room < 0:
                raise _too_large(most)
            at += len(window)
        at -= len(part.unused_data)
        if not part.eof or at == len(body) or not body.startswith(mark, at):
            return _something(b"".join(pieces), is_whole=part.eof)
    raise ValueError(f"more than {MOST_PARTS:,} parts")


def _inflate(body: bytes, most: int) -> bytes:
    stream = zlib.decompressobj(_ZLIB)
    try:
        out = stream.decompress(body, most + 1)
    except Exception:  # some servers send it without the header that belongs before it
        stream = zlib.decompressobj(_RAW)
        out = stream.decompress(body, most + 1)
    return _within(_something(out, is_whole=stream.eof), most)


def _something(out: bytes, *, is_whole: bool) -> bytes:
    """Bytes that begin like packed ones, and of which nothing can be unpacked, are none."""
    if not out and not is_whole:
        raise ValueError("nothing can be read of it")
    return out


def _unbrotli(body: bytes, most: int) -> bytes:
    stream = brotli.Decompressor()
    out: bytes = stream.process(body, output_buffer_limit=most + 1)
    while not stream.is_finished():
        piece = stream.process(b"", output_buffer_limit=most + 1)
        if not piece:
            break
        out = _within(out + piece, most)
    return _within(_something(out, is_whole=stream.is_finished()), most)


def _unzstd(body: bytes, most: int) -> bytes:
    return _unpack_parts(body, most, zstd.ZstdDecompressor, b"") if body else b""


def _within(out: bytes, most: int) -> bytes:
    if len(out) > most:
        raise _too_large(most)
    return out


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"more than {most:,} bytes when unpacked")


_CODECS: dict[bytes, Callable[[bytes, int], bytes]] = {
    b"gzip": _gunzip,
    b"x-gzip": _gunzip,
    b"deflate": _inflate,
    b"br": _unbrotli,
    b"zstd": _unzstd,
    b"identity": _whole,
}
