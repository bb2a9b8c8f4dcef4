"""Where a request leads: the scheme, host and port of its URL, and which of the addresses behind
them may be contacted."""

from __future__ import annotations

import functools
import re
import socket
from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from scrapy.exceptions import UnsupportedURLSchemeError

from crawlproj.fetch.addresses import AddressPolicy
from crawlproj.urls import DEFAULT_PORTS, UrlError, bare_name, normalise

PORTS = {
    **{scheme: int(port) for scheme, port in DEFAULT_PORTS.items()},
    **dict.fromkeys(("socks4", "socks4a", "socks5", "socks5h"), 1080),
}
"""Schemes of URLs and proxies, with their ports."""

_WEB = tuple(DEFAULT_PORTS)
_ORIGIN = re.compile(r"[a-z0-9+.-]+://[^/?#\\]*(?![^/?#])", re.IGNORECASE)
"""The beginning of a URL that is read alike by everybody; after a backslash it is not."""


class Endpoint(NamedTuple):
    """What is connected to."""

    scheme: str
    host: str
    port: int
    literal: str
    """The address, as the system writes it, if the host is one; else empty."""


@functools.lru_cache(10_000)
def _endpoint(origin: str) -> Endpoint:
    """ValueError if it is none."""
    parts = urlsplit(origin)
    host = parts.hostname or ""
    port = parts.port or PORTS.get(parts.scheme, 0)
    return Endpoint(parts.scheme, host, port, _literal(host))


def _literal(host: str) -> str:
    """An address has many spellings (127.1, 0x7f000001), and libcurl asks a proxy for the usual
    one: all of them are addresses here, and are judged as such."""
    with suppress(UrlError):
        host = bare_name(normalise(f"http://[{host}]/" if ":" in host else f"http://{host}/").host)
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return socket.inet_ntop(family, socket.inet_pton(family, host))
        except (OSError, ValueError):
            continue
    return ""


def endpoint_of(url: str, schemes: Container[str] = _WEB) -> Endpoint:
    """Where a URL leads; raises UnsupportedURLSchemeError if nowhere."""
    found = _ORIGIN.match(url)
    try:
        endpoint = _endpoint(found[0]) if found else None
    except ValueError:
        endpoint = None
    if endpoint is None or not endpoint.host:
        raise UnsupportedURLSchemeError(f"{url[:200]!r} names no host")
    if endpoint.scheme not in schemes:
        raise UnsupportedURLSchemeError(f"{url[:200]!r}: {endpoint.scheme} is not supported here")
    return endpoint


@dataclass(slots=True)
class Gate:
    """The addresses of one request: which of them may be contacted."""

    policy: AddressPolicy
    endpoint: Endpoint
    addresses: Sequence[str]
    is_open: bool
    """To a proxy, wherever it is."""
    refused: dict[str, str] | None = None
    tried: set[str] = field(default_factory=set)
    strange: set[str] = field(default_factory=set)
    """None of this host, as far as we know: libcurl has read the URL otherwise than we have, or has
    looked the name up itself."""

    def may_connect(self, address: str) -> bool:
        if self.is_open:
            return True
        if self.refused is None:
            self.refused = self.policy.refusals(
                self.endpoint.host, self.addresses, self.endpoint.port
            )
        if address not in self.addresses:
            self.strange.add(address)
            return False
        if address in self.refused:
            return False
        self.tried.add(address)
        return True

    @property
    def has_refused_all(self) -> bool:
        """By what is known of the host: a strange address says nothing of the next time."""
        return bool(self.refused) and not self.tried and not self.strange
