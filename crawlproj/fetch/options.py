"""What a request asks of libcurl, option by option: its headers, its proxy, its own address."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pycurl

from crawlproj.errors import BadRequest
from crawlproj.fetch.exchange import Call

_UNSAFE = re.compile(rb"[\r\n\0]")
_SET_BY_LIBCURL = frozenset({b"Content-Length", b"Transfer-Encoding", b"Connection"})
_ADDED_BY_LIBCURL = (b"Accept", b"User-Agent")
_ADDED_TO_BODIES = (b"Content-Type", b"Expect")
_RESOLVED_ELSEWHERE = {"socks4": "socks4a", "socks5": "socks5h"}
"""Kinds of proxy that would have us resolve names for them, and those that do it themselves."""


def header_lines(call: Call) -> list[bytes]:
    """The headers of a request and no others: those that libcurl would add are named without a
    value."""
    names = dict(call.headers)
    lines = [
        b"%b: %b" % (name, value) if value else name + b";"
        for name, value in call.headers
        if name not in _SET_BY_LIBCURL
    ]
    lines += [name + b":" for name in _ADDED_BY_LIBCURL if name not in names]
    if call.method != "GET" or call.body:
        lines += [name + b":" for name in _ADDED_TO_BODIES if name not in names]
    if _UNSAFE.search(b"".join(lines)):
        raise BadRequest("a header holds a line break or a NUL")
    return lines


def proxy_options(call: Call) -> Iterator[tuple[int, Any]]:
    if not call.proxy:
        return
    scheme, _, rest = call.proxy.partition(":")
    scheme = scheme.lower()
    yield pycurl.PROXY, f"{_RESOLVED_ELSEWHERE.get(scheme, scheme)}:{rest}"
    login = call.proxy_authorization
    if not login:
        return
    if _UNSAFE.search(login):
        raise BadRequest("the login for a proxy holds a line break or a NUL")
    is_tunnel = call.url[:6].lower() == "https:"
    kind, _, secret = login.partition(b" ")
    if scheme.startswith("socks") or (is_tunnel and kind.lower() == b"basic"):
        # As a login and not as a header, which libcurl does not look at when it takes a tunnel
        # that is there: one that was dug with another login may lead out elsewhere.
        yield pycurl.PROXYUSERPWD, _login(secret)
        yield pycurl.PROXYAUTH, pycurl.HTTPAUTH_BASIC
        return
    yield pycurl.PROXYHEADER, [b"Proxy-Authorization: " + login]
    if is_tunnel:
        yield pycurl.FRESH_CONNECT, 1
        yield pycurl.FORBID_REUSE, 1


def _login(secret: bytes) -> str:
    """User and password, each quoted, as libcurl unquotes them."""
    try:
        user, _, password = b64decode(secret).partition(b":")
    except ValueError as error:
        raise BadRequest(f"the login for a proxy is no base64: {error}") from error
    return f"{quote(user, safe='')}:{quote(password, safe='')}"


def bind_options(call: Call) -> Iterator[tuple[int, Any]]:
    if call.bind:
        host, port = call.bind
        yield pycurl.INTERFACE, f"host!{host}"
        if port:
            yield pycurl.LOCALPORT, port
