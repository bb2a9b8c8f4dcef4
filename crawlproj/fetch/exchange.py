"""What goes out and what comes back: a request, and its response byte by byte as it came.

Plain values: knows neither libcurl nor Scrapy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Call:
    """A request, and what is to be done while its answer comes."""

    url: str
    method: str = "GET"
    headers: Sequence[tuple[bytes, bytes]] = ()
    """Names as `Content-Type` is written."""
    body: bytes = b""
    timeout_s: float
    waited_s: float = 0.0
    """Of that, before it could go out: for a name, or for another's connection."""
    most_bytes: int = 0
    """Of the body as it comes; 0 for no limit. Beyond it is an error, or the end."""
    is_enough: bool = False
    """Whether a body is good that has reached `most_bytes`."""
    proxy: str | None = None
    proxy_authorization: bytes | None = None
    bind: tuple[str, int] | None = None
    keeps_part: bool = False
    """Whether a body that was broken off is better than none."""
    on_head: Callable[[Head], bool] | None = None
    """Called with the headers; True ends the exchange there."""
    on_bytes: Callable[[bytes], bool] | None = None
    """Called with each piece of the body; True ends the exchange after it."""

    @property
    def left_s(self) -> float:
        """Of its time, for what is still to be done."""
        return max(0.001, self.timeout_s - self.waited_s)


@dataclass(slots=True, frozen=True)
class Head:
    """The beginning of a response."""

    status: int
    protocol: str
    """`HTTP/1.1`, `HTTP/1.0`, `h2` or `h3`."""
    address: str
    """The IP address at the other end, which may be a proxy's."""
    lines: Sequence[bytes]
    """As they came: the first is the status line."""

    def fields(self) -> Iterator[tuple[bytes, bytes]]:
        """Names and values of the headers."""
        for line in self.lines[1:]:
            name, _, value = line.partition(b":")
            yield name.strip(), value.strip()

    @property
    def ends_by_closing(self) -> bool:
        """Whether nothing else tells where its body ends."""
        names = {name.lower() for name, _ in self.fields()}
        is_told = not names.isdisjoint((b"content-length", b"transfer-encoding"))
        return self.protocol.startswith("HTTP/1") and not is_told


@dataclass(slots=True, frozen=True)
class Answer:
    """A response as it came; `body` is packed as its headers say."""

    head: Head
    body: bytes
    latency_s: float
    """From the beginning of the exchange to its first byte."""
    certificate: bytes | None
    """Of the server, in DER; None without TLS."""
    is_stopped: bool
    is_cut_off: bool = False
    """The connection broke off in the middle of the body."""
