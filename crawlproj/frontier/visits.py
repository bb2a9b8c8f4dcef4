"""What is kept of a page's last visit while it rests, so that the next one can tell what is new: 34
bytes and its ETag, as text, for the frontier's scripts read nothing else. Pure.
"""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from typing import NamedTuple

MOST_ETAG_BYTES = 128
"""Longer ones are not kept: the page is then told from an earlier one by its content."""

DIGEST_BYTES = 8
"""Of the SHA-256 of its content: as likely to miss a change as two pages are to agree by chance."""

NO_DIGEST = bytes(DIGEST_BYTES)

_NUMBERS = struct.Struct(f">IHfff{DIGEST_BYTES}sIH")


class History(NamedTuple):
    """What visits have shown of how often a page changes: how often it had changed, after intervals
    of how many seconds in all, and after how many seconds it had not. Old visits count less."""

    changes: float = 0.0
    changed_s: float = 0.0
    unchanged_s: float = 0.0


class Found(NamedTuple):
    """What a visit has found: in a word, and what the next one is to be told from."""

    change: str
    digest: bytes
    modified_s: int
    etag: bytes


class Visit(NamedTuple):
    """A page as it was when it was last fetched; times are of the crawl's clock."""

    at_ms: int
    history: History
    digest: bytes = NO_DIGEST
    modified_s: int = 0
    """By its Last-Modified; 0: it does not say."""
    etag: bytes = b""
    failures: int = 0
    """Visits since then at which it could not be had."""

    def pack(self) -> str:
        """As Redis keeps it."""
        seconds, ms = divmod(self.at_ms, 1000)
        etag = self.etag if len(self.etag) <= MOST_ETAG_BYTES else b""
        said = self.digest, self.modified_s, self.failures
        packed = _NUMBERS.pack(seconds, ms, *self.history, *said) + etag
        return b64encode(packed).decode()


def unpack_visit(text: str) -> Visit | None:
    """None for what is none of ours."""
    try:
        packed = b64decode(text, validate=True)
        seconds, ms, *history, digest, modified_s, failures = _NUMBERS.unpack_from(packed)
    except (struct.error, NoBase64, ValueError):
        return None
    found = History(*history)
    if not all(0 <= number < 1e18 for number in found):
        return None
    etag = packed[_NUMBERS.size :]
    return Visit(seconds * 1000 + ms, found, digest, modified_s, etag, failures)
