"""Whether a file of zstd was cut, told by its outline (RFC 8878) without unpacking it.

A frame that its worker did not end is no damage: blocks are flushed, and all of those are whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO

_MAGIC = 0xFD2FB528
_SKIPPED = range(0x184D2A50, 0x184D2A60)
_ID_BYTES = (0, 1, 2, 4)
_SIZE_BYTES = (0, 2, 4, 8)
_RUN, _RESERVED = 1, 3
"""Types of blocks: a byte that is repeated, and one that there is not."""


class _CutError(Exception):
    """The file ends within something, or goes on with something else."""


def is_cut(path: Path) -> bool:
    """Whether a file ends elsewhere than after a block, or holds what is none."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        try:
            while file.tell() < size:
                _pass_frame(file, size)
        except _CutError:
            return True
    return False


def _pass_frame(file: IO[bytes], size: int) -> None:
    magic = _number(file, 4)
    if magic in _SKIPPED:
        _pass(file, _number(file, 4), size)
        return
    if magic != _MAGIC:
        raise _CutError
    about = _number(file, 1)
    is_one_segment = about >> 5 & 1
    content_size_bytes = _SIZE_BYTES[about >> 6] or is_one_segment
    _pass(file, (not is_one_segment) + _ID_BYTES[about & 3] + content_size_bytes, size)
    while file.tell() < size:
        if _pass_block(file, size):
            _pass(file, 4 * (about >> 2 & 1), size)  # its checksum
            return


def _pass_block(file: IO[bytes], size: int) -> bool:
    """True if it was the last of its frame."""
    head = _number(file, 3)
    kind = head >> 1 & 3
    if kind == _RESERVED:
        raise _CutError
    _pass(file, 1 if kind == _RUN else head >> 3, size)
    return bool(head & 1)


def _number(file: IO[bytes], count: int) -> int:
    read = file.read(count)
    if len(read) < count:
        raise _CutError
    return int.from_bytes(read, "little")


def _pass(file: IO[bytes], count: int, size: int) -> None:
    if file.seek(count, 1) > size:
        raise _CutError
