"""One easy handle of libcurl, used for one request after the other, and what comes over it.

Everything that a server can do ends here within limits: of header lines and their number, of 1xx
responses, of the size of the body. Headers and body are kept byte by byte as they came. libcurl
follows no redirect, keeps no cookie, reads no .netrc and no variable of the environment for a
proxy, and asks nothing again on its own.

Knows HTTP and libcurl, and of Scrapy only the names of errors.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Callable, Collection, Iterable, Sequence
from io import BytesIO
from typing import Any

import pycurl
from scrapy.exceptions import (
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
)

from crawlproj.errors import BadRequest, BadResponse, NoLongerOurs
from crawlproj.fetch.exchange import Answer, Call, Head
from crawlproj.fetch.kept import Connection, KeptConnections, Line
from crawlproj.fetch.options import bind_options, header_lines, proxy_options

HEADER_LINE_BYTES = 16 * 1024
HEADERS = 256
INFORMATIONAL = 16
"""Responses 1xx that may come before the real one."""

KEPT_S = 300
"""How long a connection may wait for the next request: longer than most servers let it, and longer
than the pause of all but the slowest hosts."""

RESOLVED_S = 1
"""How long libcurl knows the addresses that a request came with: it asks for them at once if it
has no connection. All that it knows is looked through for each new connection: those of a minute
took a fifth of the CPU of a crawl of 10,000 hosts."""

BUFFER_BYTES = 64 * 1024
ABORT = -1
_NO_SOCKET: int = pycurl.SOCKET_BAD
_SUPPRESS_CONNECT_HEADERS = 265
"""CURLOPT_SUPPRESS_CONNECT_HEADERS, which pycurl has no name for."""

_STATUS_LINE = re.compile(rb"HTTP/(\d(?:\.\d)?) (\d{3})(?=[ \r\n])")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PROTOCOLS = {b"2": "h2", b"3": "h3"}

BASE: list[tuple[int, Any]] = [
    (pycurl.NOSIGNAL, 1),
    (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
    (pycurl.REDIR_PROTOCOLS, 0),
    (pycurl.FOLLOWLOCATION, 0),
    (pycurl.NETRC, pycurl.NETRC_IGNORED),
    (pycurl.PROXY, ""),
    (pycurl.NOPROXY, ""),
    (pycurl.HEADEROPT, pycurl.HEADER_SEPARATE),
    (_SUPPRESS_CONNECT_HEADERS, 1),
    (pycurl.HTTP09_ALLOWED, 0),
    (pycurl.HTTP_CONTENT_DECODING, 0),
    (pycurl.PATH_AS_IS, 1),
    (pycurl.BUFFERSIZE, BUFFER_BYTES),
    (pycurl.MAXAGE_CONN, KEPT_S),
    (pycurl.DNS_CACHE_TIMEOUT, RESOLVED_S),
    (pycurl.TCP_NODELAY, 1),
    (pycurl.OPT_CERTINFO, 1),
]
"""What holds for every request."""

_NO_CALL = Call(url="", timeout_s=0)


class Transfer:
    """An easy handle and the one exchange that it is at."""

    def __init__(
        self,
        options: Iterable[tuple[int, Any]],
        kept: KeptConnections,
        may_send: Callable[[], bool],
    ) -> None:
        self.curl: Any = pycurl.Curl()
        self._options = [*BASE, *options]
        self._kept = kept
        self._may_send = may_send
        self.ended: asyncio.Future[tuple[int, str]]
        self.on_connected: Callable[[], None] | None = None
        self._share: Any = None
        self._used: Connection | None = None
        self._set_up()

    def _set_up(self) -> None:
        """The state that every request begins with."""
        curl = self.curl
        for option, value in self._options:
            curl.setopt(option, value)
        curl.setopt(pycurl.HEADERFUNCTION, self._on_header)
        curl.setopt(pycurl.WRITEFUNCTION, self._on_body)
        curl.setopt(pycurl.OPENSOCKETFUNCTION, self._on_socket)
        curl.setopt(pycurl.PREREQFUNCTION, self._on_sending)
        self._is_marked = False
        self._sent: Sequence[tuple[bytes, bytes]] | None = None
        self._timeout_ms = 0

    def begin(
        self,
        call: Call,
        may_connect: Callable[[str], bool],
        *,
        resolved: str | None = None,
        share: Any = None,
        special: Collection[tuple[int, Any]] = (),
    ) -> None:
        """Set everything that differs from request to request. `resolved` holds the addresses of
        the name to connect to, as CURLOPT_RESOLVE wants them."""
        if self._is_marked:
            self.curl.reset()
            self._set_up()
        self._call = call
        self._may_connect = may_connect
        self._lines: list[bytes] = []
        # Not a list: a piece of two bytes would take sixty. Not a bytearray: growing to 240 KB and
        # becoming bytes took it 0.2 ms instead of 0.01.
        self._body = BytesIO()
        self._size = 0
        self._informational = 0
        self._opened: list[int] = []
        self._line = Line()
        self._is_sent = False
        self._is_stopped = False
        self.is_held_back = False
        """Nothing was sent, because the kept connection is of no use; another one may be."""
        self.is_answered_unasked = False
        """What came was said before the request: the server does not keep to one answer each."""
        self._come = 0
        """Bytes that had come over a connection of HTTP/1 when the request was sent, under TLS."""
        self.head: Head | None = None
        self.error: Exception | None = None
        self._most = call.most_bytes or 2**63
        self._set_request(call)
        self._set_way(call, resolved, share, special)

    def _set_request(self, call: Call) -> None:
        curl = self.curl
        curl.setopt(pycurl.URL, call.url)
        if call.headers != self._sent or call.method != "GET" or call.body:
            curl.setopt(pycurl.HTTPHEADER, header_lines(call))
            self._sent = call.headers
        timeout_ms = max(1, int(call.left_s * 1000))
        if timeout_ms != self._timeout_ms:
            curl.setopt(pycurl.TIMEOUT_MS, timeout_ms)
            self._timeout_ms = timeout_ms
        if call.method != "GET" or call.body:
            self._is_marked = True
            self._set_method(call)

    def _set_method(self, call: Call) -> None:
        if not _TOKEN.fullmatch(call.method):
            raise BadRequest(f"{call.method[:100]!r} is no method")
        if call.method == "HEAD":
            self.curl.setopt(pycurl.NOBODY, 1)
            return
        if call.body or call.method in ("POST", "PUT", "PATCH"):
            self.curl.setopt(pycurl.POSTFIELDSIZE, len(call.body))
            self.curl.setopt(pycurl.POSTFIELDS, call.body)
        self.curl.setopt(pycurl.CUSTOMREQUEST, call.method)

    def _set_way(
        self, call: Call, resolved: str | None, share: Any, special: Collection[tuple[int, Any]]
    ) -> None:
        curl = self.curl
        if resolved:  # every time: libcurl reads it once, and forgets what it has read
            curl.setopt(pycurl.RESOLVE, [resolved])
        if share is not None and share is not self._share:
            if self._share is not None:
                curl.unsetopt(pycurl.SHARE)
            curl.setopt(pycurl.SHARE, share)
            self._share = share
        if call.proxy or call.bind or special:
            self._is_marked = True
            for option, value in (*proxy_options(call), *bind_options(call), *special):
                curl.setopt(option, value)

    def answer(self, *, is_cut_off: bool = False) -> Answer:
        """What has come."""
        assert self.head is not None
        if self._call.is_enough:
            self._body.truncate(min(self._size, self._most + 1))
        body = self._body.getvalue()
        latency_s: float = self.curl.getinfo(pycurl.STARTTRANSFER_TIME)
        certificate = self._leave(self.head.protocol)
        return Answer(self.head, body, latency_s, certificate, self._is_stopped, is_cut_off)

    def _leave(self, protocol: str) -> bytes | None:
        """Leave the connection to the next request. Returns its server's certificate, which libcurl
        tells of a new one only, so that it is kept with the connection."""
        connection = self._kept.find(self._line)
        if connection is None:
            return None
        connection.is_shared = protocol in _PROTOCOLS.values()
        # Of a stream that was broken off more may come, and over QUIC there is always something.
        is_busy = protocol == "h3" or (connection.is_shared and self._is_stopped)
        connection.is_resting = not is_busy
        if self._opened:
            chain = self.curl.getinfo(pycurl.INFO_CERTINFO)
            texts = [text for name, text in (chain[0] if chain else ()) if name == "Cert"]
            connection.certificate = ssl.PEM_cert_to_DER_cert(texts[0]) if texts else None
        return connection.certificate

    def look_before_next(self) -> None:
        """Its connection is closed, which libcurl does not know: the next request is to find it."""
        if connection := self._kept.find(self._line):
            connection.is_resting = True

    def end(self, code: int, text: str) -> None:
        """It is over: libcurl's error number, 0 for none, and its words for it."""
        if not self.ended.done():
            self.ended.set_result((code, text))

    def break_off(self, error: Exception) -> None:
        """End it with this error, whatever has come."""
        self.error = error
        self.end(pycurl.E_ABORTED_BY_CALLBACK, str(error))

    def rest(self) -> None:
        """Let go of the exchange: it may be long until the next one, and its page may be large."""
        if self._used is not None:
            self._used.exchanges -= 1
            self._used = None
        self._call = _NO_CALL
        self._may_connect = _nowhere
        self.on_connected = None
        self._lines = []
        self._body = BytesIO()
        self.head = self.error = None

    @property
    def is_stopped(self) -> bool:
        """Whether the exchange was ended because nobody wants the rest."""
        return self._is_stopped

    @property
    def is_secure(self) -> bool:
        """Whether TLS lies between us and what is next to us."""
        return "https:" in (self._call.url[:6].lower(), (self._call.proxy or "")[:6].lower())

    @property
    def is_over_kept(self) -> bool:
        """Whether the request went out over a connection that had others before."""
        return self._is_sent and not self._opened

    @property
    def may_go_again(self) -> bool:
        """Whether it was held back, and not broken off as well."""
        return self.is_held_back and self.error is None

    @property
    def is_over_shared(self) -> bool:
        """Whether its connection is one that can have many exchanges at a time."""
        connection = self._kept.find(self._line)
        return connection is not None and bool(connection.is_shared)

    @property
    def is_silent(self) -> bool:
        """Whether its answer has not begun; a response 1xx is none."""
        return self.head is None and not self._lines

    def close(self) -> None:
        self.curl.close()

    # What libcurl calls. An exception would be printed and lost, so it is kept in `error`.

    def _on_socket(self, purpose: int, address: Any) -> int:
        """Open a socket to an address, if it may be contacted."""
        try:
            if self._is_sent:
                self._refuse_to_repeat()
            elif purpose == pycurl.SOCKTYPE_IPCXN and self._may_connect(address.addr[0]):
                opened = socket.socket(address.family, address.socktype, address.protocol)
                self._opened.append(opened.fileno())
                return opened.detach()
        except Exception as error:
            self.error = DownloadConnectionRefusedError(str(error))
        return _NO_SOCKET

    def _on_sending(self, address: str, own: str, port: int, own_port: int) -> int:
        """The connection stands: the last moment before the request goes out."""
        self._line = Line(address, port, own, own_port)
        if self._is_sent:
            self._refuse_to_repeat()
        elif not self._may_send():
            self.error = NoLongerOurs()
        elif self._opened:
            self._kept.note(self._line, self._opened)
        else:
            self.is_held_back = self._kept.is_spoilt(self._line)
            self._mark()
        self._is_sent = True
        is_good = self.error is None and not self.is_held_back
        if is_good and (used := self._kept.find(self._line)):
            used.exchanges += 1
            self._used = used
        if is_good and self.on_connected is not None:
            self.on_connected()
        verdict: int = pycurl.PREREQFUNC_OK if is_good else pycurl.PREREQFUNC_ABORT
        return verdict

    def _mark(self) -> None:
        """Over a kept connection under TLS: who knows what OpenSSL has read already."""
        connection = self._kept.find(self._line)
        if connection is not None and connection.is_shared is False and self.is_secure:
            self._come = connection.bytes_come()

    def _has_come(self) -> bool:
        """Whether anything has come since the request was sent; no only if that is certain."""
        come, self._come = self._come, 0
        connection = self._kept.find(self._line)
        return not come or connection is None or connection.bytes_come() != come

    def _refuse_to_repeat(self) -> None:
        """libcurl asks again when a kept connection breaks, past the host's pace."""
        self.error = DownloadFailedError("the connection was closed before an answer came")

    def _on_header(self, line: bytes) -> int | None:
        if line in (b"\r\n", b"\n"):
            return self._on_end_of_head()
        if self.head is not None:  # trailers, which nobody needs
            return None
        if self._come and not self._has_come():
            self.is_answered_unasked = True
            return self._fail(DownloadFailedError("the server spoke before it was asked"))
        self._lines.append(line)
        if len(line) > HEADER_LINE_BYTES:
            return self._fail(BadResponse(f"a header of more than {HEADER_LINE_BYTES} bytes"))
        if len(self._lines) > HEADERS:
            return self._fail(BadResponse(f"more than {HEADERS} headers"))
        return None

    def _on_end_of_head(self) -> int | None:
        if self.head is not None:
            return None
        lines, self._lines = self._lines, []
        found = _STATUS_LINE.match(lines[0] if lines else b"")
        status = int(found[2]) if found else 0
        if found is None or status < 100 or status == 101:
            return self._fail(BadResponse(f"{lines[:1]!r:.100} answers nothing that was asked"))
        if status < 200:
            self._informational += 1
            if self._informational > INFORMATIONAL:
                return self._fail(BadResponse(f"more than {INFORMATIONAL} responses 1xx"))
            return None
        protocol = _PROTOCOLS.get(found[1]) or f"HTTP/{found[1].decode()}"
        self.head = Head(status, protocol, self._line.address, lines)
        return self._ask(self._call.on_head, self.head)

    def _on_body(self, piece: bytes) -> int | None:
        self._body.write(piece)
        self._size += len(piece)
        if self._size > self._most:
            if self._call.is_enough:
                self._is_stopped = True
                return ABORT
            text = f"Received {self._size} bytes which is larger than download max size"
            return self._fail(DownloadCancelledError(f"{text} ({self._most}): {self._call.url}"))
        if self._call.on_bytes is not None:
            return self._ask(self._call.on_bytes, piece)
        return None

    def _ask(self, should_stop: Callable[[Any], bool] | None, what: Any) -> int | None:
        try:
            if should_stop is not None and should_stop(what):
                self._is_stopped = True
                return ABORT
        except Exception as error:
            return self._fail(error)
        return None

    def _fail(self, error: Exception) -> int:
        self.error = error
        return ABORT


def _nowhere(_address: str) -> bool:
    return False
