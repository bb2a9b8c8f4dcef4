"""WARC records, as bytes: what was asked, what was answered, and that an answer is known already.

An exchange is a `response` and the `request` that it answers, each a gzip member of its own. Over
HTTP/2 and HTTP/3 it is written in the words of HTTP/1.1, which is what readers of WARC know;
`WARC-Protocol` says what it was. Bodies stay packed as their Content-Encoding says. Chunks are put
together, so the header that speaks of them is called X-Archive-Orig-Transfer-Encoding.

Pure: knows neither Scrapy, Redis nor files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import quote
from uuid import uuid4

try:
    from isal import isal_zlib as zlib
except ImportError:  # not for this machine
    import zlib  # type: ignore[no-redef]

VERSION = "WARC/1.1"
RESPONSE, REQUEST, REVISIT, WARCINFO = "response", "request", "revisit", "warcinfo"
SAME_PAYLOAD = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
NOT_MODIFIED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"

LEVEL = 1
"""Of ISA-L's gzip, which takes a third to a fifth of zlib's time for the same size; its higher
levels take longer for little."""

_GZIP = 31
"""What zlib and its kin call the format."""

_NEWER_STATUS = re.compile(rb"HTTP/[23](?:\.\d)? (\d{3})[^\r\n]*")
_CHUNKED = re.compile(rb"^Transfer-Encoding(?=[ \t]*:)", re.IGNORECASE | re.MULTILINE)
_PROTOCOLS = {"HTTP/1.0": "http/1.0", "HTTP/1.1": "http/1.1"}
"""As WARC-Protocol has them; others are called the same there."""
_ONE_WORD = re.compile(r"[\x21-\x7e]+")
_NOT_MODIFIED = re.compile(rb"HTTP/\S+ 304\b")


class Original(NamedTuple):
    """Where a payload was met first."""

    url: str
    at_s: int


@dataclass(frozen=True, slots=True)
class Capture:
    """An exchange with a server."""

    url: str
    at_s: int
    request: bytes
    head: bytes
    """Status line and headers of the answer, with the empty line that ends them."""
    body: bytes
    address: str = ""
    protocol: str = ""
    truncated: str = ""
    """Why the body is not all there, in the words of WARC-Truncated; "" if it is."""

    @property
    def size(self) -> int:
        return len(self.request) + len(self.head) + len(self.body)


def exchange(capture: Capture, payload: bytes, original: Original | None) -> bytes:
    """The records of an exchange whose payload has this digest, and was met before if there is an
    original."""
    head = _as_http1(capture.head)
    is_304 = _NOT_MODIFIED.match(head) is not None
    body = b"" if original else capture.body
    answer_id, common = _new_id(), _common(capture)
    answer = [
        ("WARC-Type", REVISIT if original or is_304 else RESPONSE),
        ("WARC-Record-ID", answer_id),
        *common,
        *_revisited(capture.url, original, is_304=is_304),
        ("WARC-Payload-Digest", "" if is_304 else f"sha256:{payload.hex()}"),
        ("WARC-Truncated", capture.truncated),
        ("Content-Type", "application/http;msgtype=response"),
    ]
    asked = [
        ("WARC-Type", REQUEST),
        ("WARC-Record-ID", _new_id()),
        *common,
        ("WARC-Concurrent-To", answer_id),
        ("Content-Type", "application/http;msgtype=request"),
    ]
    return record(answer, head, body) + record(asked, capture.request)


def warcinfo(name: str, at_s: float, about: Mapping[str, str]) -> bytes:
    """The first record of a file: who has written it, and how."""
    block = "".join(f"{key}: {_one_line(value)}\r\n" for key, value in about.items())
    fields = [
        ("WARC-Type", WARCINFO),
        ("WARC-Record-ID", _new_id()),
        ("WARC-Date", date(at_s)),
        ("WARC-Filename", name),
        ("Content-Type", "application/warc-fields"),
    ]
    return record(fields, block.encode())


def record(fields: Iterable[tuple[str, str]], *block: bytes) -> bytes:
    """A record, packed. Fields without a value are left out."""
    digest, size = sha256(), 0
    for part in block:
        digest.update(part)
        size += len(part)
    lines = [VERSION, *(f"{name}: {value}" for name, value in fields if value)]
    lines += [f"WARC-Block-Digest: sha256:{digest.hexdigest()}", f"Content-Length: {size}", "", ""]
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)
    parts = ["\r\n".join(lines).encode(), *block, b"\r\n\r\n"]
    return b"".join([*map(packer.compress, parts), packer.flush()])


@lru_cache(1024)
def date(at_s: float) -> str:
    """A time as WARC-Date has it."""
    return datetime.fromtimestamp(int(at_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _common(capture: Capture) -> list[tuple[str, str]]:
    protocol = _PROTOCOLS.get(capture.protocol, capture.protocol)
    return [
        ("WARC-Target-URI", _uri(capture.url)),
        ("WARC-Date", date(capture.at_s)),
        ("WARC-IP-Address", capture.address),
        ("WARC-Protocol", protocol),
    ]


def _revisited(url: str, original: Original | None, *, is_304: bool) -> list[tuple[str, str]]:
    if original:
        return [
            ("WARC-Profile", SAME_PAYLOAD),
            ("WARC-Refers-To-Target-URI", _uri(original.url)),
            ("WARC-Refers-To-Date", date(original.at_s)),
        ]
    return [("WARC-Profile", NOT_MODIFIED), ("WARC-Refers-To-Target-URI", _uri(url))][: 2 * is_304]


def _as_http1(head: bytes) -> bytes:
    status = _NEWER_STATUS.match(head)
    if status is not None:
        head = b"HTTP/1.1 %b %b" % (status[1], _phrase(int(status[1]))) + head[status.end() :]
    return _CHUNKED.sub(b"X-Archive-Orig-Transfer-Encoding", head)


def _phrase(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b""


def _uri(url: str) -> str:
    """A URL that cannot end its line."""
    if _ONE_WORD.fullmatch(url):
        return url
    return quote(url, safe="!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _new_id() -> str:
    return f"<urn:uuid:{uuid4()}>"
