"""Who may ask a server of ours for what: checked before anything else is done.

- `Host` must be an address or a name that is known to be ours. A page elsewhere whose name leads to
  this machine (DNS rebinding) is refused by that.
- `Origin`, where a browser says it, must be our own.
- Beyond loopback, nothing is shown without the token: by a cookie, as a bearer, or once in the
  address.
- Every action is a POST with the token in a header, which no other page can send; a cookie is not
  enough.

Knows nothing of crawls.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

TOKEN_HEADER = "x-crawl-token"
OPEN_PATHS = ("/healthz", "/login", "/static/login.css")
"""What is shown without a token: that there is a dashboard, and where to give it one."""

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of every reply. Scripts and styles are files of ours; nothing inline, nothing from elsewhere."""


class Refusal(NamedTuple):
    """Why a request is not answered."""

    status: int
    text: str


@dataclass(frozen=True)
class Guard:
    """The rules of one server."""

    token: str
    is_public: bool
    """Whether it listens beyond loopback, so that the token is needed to look."""
    names: Collection[str] = field(default_factory=frozenset)
    """Names, beside localhost, by which it may be asked for."""
    cookie: str = "crawl_dashboard"

    def refusal(
        self, method: str, path: str, headers: Mapping[str, str], cookies: Mapping[str, str]
    ) -> Refusal | None:
        """None for a request that may be answered. Names of headers are in lower case."""
        if not self._is_ours(headers.get("host", "")):
            return Refusal(421, "this Host is not known here: CRAWL_DASHBOARD_HOSTS adds names")
        if _is_from_elsewhere(path, headers):
            return Refusal(403, "refused: the request comes from another site")
        if path in OPEN_PATHS:
            return None
        if method not in ("GET", "HEAD") and not self._has_sent_token(headers):
            return Refusal(403, f"an action needs the token, in the header {TOKEN_HEADER}")
        if self.is_public and not self.may_look(headers, cookies):
            return Refusal(401, "give the token that was printed when the dashboard was started")
        return None

    def may_look(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> bool:
        """Whether the token was given in any way."""
        return self._has_sent_token(headers) or self.is_token(cookies.get(self.cookie, ""))

    def is_token(self, given: str) -> bool:
        """Compared in a time that tells nothing."""
        return hmac.compare_digest(given.encode(), self.token.encode())

    def _has_sent_token(self, headers: Mapping[str, str]) -> bool:
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        given = headers.get(TOKEN_HEADER) or (bearer.strip() if kind.lower() == "bearer" else "")
        return self.is_token(given)

    def _is_ours(self, host: str) -> bool:
        name = bare_host(host)
        if name is None:
            return False
        with suppress(ValueError):
            # A name that was rebound stands in Host as a name: an address is what it says. On
            # loopback only what is loopback can be meant.
            address = ipaddress.ip_address(name)
            return self.is_public or address.is_loopback
        return name == "localhost" or name in self.names


def bare_host(host: str) -> str | None:
    """The name or address in a Host header, in lower case without a port; None if it is none."""
    with suppress(ValueError):
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises, if it is none
        if parts.hostname and not (parts.path or parts.query or "@" in parts.netloc):
            return parts.hostname.rstrip(".")
    return None


def _is_from_elsewhere(path: str, headers: Mapping[str, str]) -> bool:
    """Whether a browser says so. A link to the page itself may stand anywhere."""
    if "origin" in headers:
        scheme, _, place = headers["origin"].lower().partition("://")
        return scheme not in ("http", "https") or place != headers["host"].lower()
    return path != "/" and headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def is_loopback(host: str) -> bool:
    """Whether who listens there is reached from this machine alone."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def names_of_machine(host: str, more: Collection[str] = ()) -> frozenset[str]:
    """The names by which a server on this machine may be asked for."""
    own = {socket.gethostname().lower(), socket.getfqdn().lower(), *map(str.lower, more)}
    return frozenset({host.lower(), *own} if not is_loopback(host) else map(str.lower, more))
