"""Proxies of stored requests: one can choose among those of the settings, and name no other.

What is in Redis is hostile, and a proxy is connected to wherever it is. So a request is stored with
the address of its proxy alone, which means something only to a worker whose own CRAWL_PROXIES has
it; the login comes from there. What a downloader middleware or the environment has chosen is not
stored: they choose again for the next attempt.

Knows neither Scrapy's middlewares nor how a connection is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

LOGIN_HEADER = b"Proxy-Authorization"


class Proxies:
    """The proxies that requests of this worker may name."""

    def __init__(self, named: Iterable[str] = ()) -> None:
        self._named = {proxy_address(one): one for one in named}

    def address(self, proxy: object) -> str | None:
        """The address to store for a proxy; None if requests may not name it."""
        address = proxy_address(proxy) if isinstance(proxy, str) else ""
        return address if address in self._named else None

    def named(self, stored: object) -> str | None:
        """The proxy, with its login, of a stored address; None if it is none of ours."""
        return self._named.get(stored) if isinstance(stored, str) else None


NO_PROXIES = Proxies()


def proxy_address(proxy: str) -> str:
    """Scheme, host and port of a proxy, without its login."""
    scheme, _, rest = proxy.rpartition("//")
    netloc = urlsplit(f"//{rest}").netloc.rpartition("@")[2]
    return f"{scheme or 'http:'}//{netloc}".lower()
