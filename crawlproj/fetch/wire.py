"""An exchange as it went over the wire, for who keeps it in an archive.

Set `request.meta[KEEP_WIRE]` to True, and the exchange is in `request.meta[WIRE]` when the response
comes (frontier/meta_keys.py). Nothing is kept, and nothing is done, for requests without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from crawlproj.fetch.exchange import Answer, Call


@dataclass(frozen=True)
class Wire:
    """What was asked and what was answered."""

    request: bytes
    """Request line, headers, an empty line and the body; over HTTP/2 the same in the words of
    HTTP/1.1, as archives have it."""
    head: bytes
    """The status line and the headers of the response, with the empty line that ends them."""
    body: bytes
    """Packed as its Content-Encoding says; chunks are put together."""
    address: str
    """The IP address that answered, which may be a proxy's."""
    protocol: str
    """`HTTP/1.1`, `HTTP/1.0`, `h2` or `h3`."""
    truncated: str = ""
    """Why the body is not all there, in the words of WARC: `disconnect`, or `length` where no more
    of it was wanted; "" if it is."""


def wire(call: Call, answer: Answer) -> Wire:
    """The exchange of a call and its answer."""
    head = answer.head
    lines = b"".join([*head.lines, b"\r\n"])
    truncated = "disconnect" if answer.is_cut_off else "length" if answer.is_stopped else ""
    return Wire(_request(call), lines, answer.body, head.address, head.protocol, truncated)


def _request(call: Call) -> bytes:
    parts = urlsplit(call.url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    fields = list(call.headers)
    if not any(name.lower() == b"host" for name, _ in fields):
        fields.insert(0, (b"Host", parts.netloc.rpartition("@")[2].encode()))
    if call.body:
        fields.append((b"Content-Length", b"%d" % len(call.body)))
    lines = [f"{call.method} {target} HTTP/1.1".encode(), *(b"%b: %b" % one for one in fields)]
    return b"\r\n".join([*lines, b"", call.body])
