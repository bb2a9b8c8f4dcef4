"""What ends a request without a page: libcurl's error numbers in the words of Scrapy, where it has
one, and in ours where not. frontier/failures.py says what each means."""

from __future__ import annotations

import pycurl
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
    UnsupportedURLSchemeError,
)

from crawlproj.errors import BadCertificate, BadRequest, BadResponse

_NAMES: dict[int, type[Exception]] = {
    pycurl.E_URL_MALFORMAT: BadRequest,
    pycurl.E_COULDNT_RESOLVE_HOST: CannotResolveHostError,
    pycurl.E_COULDNT_RESOLVE_PROXY: CannotResolveHostError,
    pycurl.E_COULDNT_CONNECT: DownloadConnectionRefusedError,
    pycurl.E_SSL_CONNECT_ERROR: DownloadConnectionRefusedError,
    pycurl.E_OPERATION_TIMEDOUT: DownloadTimeoutError,
    pycurl.E_PEER_FAILED_VERIFICATION: BadCertificate,
    pycurl.E_SSL_ISSUER_ERROR: BadCertificate,
    pycurl.E_SSL_INVALIDCERTSTATUS: BadCertificate,
    pycurl.E_FTP_WEIRD_SERVER_REPLY: BadResponse,
    pycurl.E_BAD_CONTENT_ENCODING: BadResponse,
    100: BadResponse,  # CURLE_TOO_LARGE: a header, or all of them
}
_MAY_PASS = {
    pycurl.E_PARTIAL_FILE,
    pycurl.E_RECV_ERROR,
    pycurl.E_HTTP2,
    92,  # CURLE_HTTP2_STREAM
    95,  # CURLE_HTTP3
    96,  # CURLE_QUIC_CONNECT_ERROR
}
"""A connection that broke off. Once the headers have come, part of a page is lost."""


def named(code: int, text: str, *, has_head: bool) -> Exception:
    """The exception for an error of libcurl, with libcurl's words."""
    text = text or pycurl.easy_strerror(code)
    if code == pycurl.E_UNSUPPORTED_PROTOCOL:
        # The same number for a scheme and for an answer that is no HTTP.
        return (BadResponse if "HTTP/0.9" in text else UnsupportedURLSchemeError)(text)
    if code == pycurl.E_RECV_ERROR and "chunk" in text.lower():
        return BadResponse(text)
    if code in _MAY_PASS and has_head:
        return ResponseDataLossError(text)
    return _NAMES.get(code, DownloadFailedError)(text)


def is_plain_close(code: int, text: str) -> bool:
    """Whether a connection under TLS was closed without a word of it, as many servers do: then
    nothing says that a body is whole which ends by closing, but nothing does without TLS either."""
    return code == pycurl.E_RECV_ERROR and "unexpected eof" in text.lower()
