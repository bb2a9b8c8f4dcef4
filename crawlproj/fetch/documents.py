"""Documents that a command needs of the web: a sitemap, a feed, a page of search results.

One after the other, at the crawl's pace for each host, and under what holds for a worker: only to
addresses that the policy of addresses.py passes on every hop, within limits of time and size. What
goes wrong is one FetchError, whose text is one line.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import urlencode
from urllib.request import getproxies, proxy_bypass

import aiohttp
import yarl
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.ssl import _make_ssl_context

from crawlproj.config import Config
from crawlproj.errors import CrawlError
from crawlproj.fetch.addresses import AddressPolicy
from crawlproj.fetch.connections import SafeConnector, SystemResolver
from crawlproj.fetch.handler import open_session
from crawlproj.urls import Url, UrlError, bare_name, location, normalise

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_KEEP_METHOD = (307, 308)
_FORM = "application/x-www-form-urlencoded"
_AS_ANY = 47
"""zlib: a gzip or zlib header, whichever is there."""


class FetchError(CrawlError):
    """A document that could not be had."""


class Document(NamedTuple):
    """What a server answered; the URL is where redirects have led."""

    url: str
    status: int
    body: bytes


class Documents:
    """A client for the URLs that the user names, each of which counts as a seed does: it may be in
    the user's own network. Where it redirects to, and all else, may not."""

    def __init__(self, settings: BaseSettings) -> None:
        config = Config.from_settings(settings)
        self._named: list[str] = []
        self._policy = AddressPolicy(config.allow_addresses, lambda: self._named)
        self._ssl_context = _make_ssl_context(settings)
        self._headers = {"User-Agent": settings["USER_AGENT"], "Accept-Encoding": "gzip"}
        self._timeout_s = settings.getfloat("DOWNLOAD_TIMEOUT")
        self._uses_proxies = settings.getbool("HTTPPROXY_ENABLED")
        self._delay_s = config.delay_s or 0.0
        self._ended_at: dict[str, float] = {}

    async def __aenter__(self) -> Self:
        connector = SafeConnector(self._policy, resolver=SystemResolver())
        self._session = open_session(connector)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    def name(self, url: Url) -> None:
        """The user has named this URL."""
        self._named.append(url.host.partition("://")[2])

    def vouches_for(self, url: Url) -> bool:
        """Whether the user has named what is behind a URL: its host, or an address that may be
        contacted as things are. A name can stand for any address."""
        named = {bare_name(one) for one in self._named}
        name = bare_name(url.host)
        return name in named or self._policy.refusal(name, name) is None

    async def get(
        self, url: Url, *, most_bytes: int, form: Mapping[str, str] | None = None
    ) -> Document:
        """The document behind a URL and its redirects, whatever its status."""
        for _ in range(MOST_REDIRECTS + 1):
            try:
                document, to = await self._exchange(url, form, most_bytes)
                if to is None:
                    return document
                form = form if document.status in _KEEP_METHOD else None
                url = normalise(to, url, drop=None)
            except UrlError as error:
                raise FetchError(f"{url}: leads to no URL: {error}") from None
        raise FetchError(f"{url}: more than {MOST_REDIRECTS} redirects")

    async def _exchange(
        self, url: Url, form: Mapping[str, str] | None, most_bytes: int
    ) -> tuple[Document, str | None]:
        """One request; what came, and where it redirects to if it does."""
        await self._keep_pace(url.host)
        try:
            async with self._session.request(**self._request(url, form)) as response:
                if response.status in _REDIRECTS and (to := _location(response)):
                    return Document(str(url), response.status, b""), to
                body = await _body(response, most_bytes, url)
                return Document(str(url), response.status, body), None
        except TimeoutError:
            raise FetchError(f"{url}: no answer within {self._timeout_s:g} s") from None
        except aiohttp.ClientConnectorError as error:
            raise FetchError(f"{url}: {error.strerror or error.os_error}") from None
        except (aiohttp.ClientError, IgnoreRequest, OSError, ValueError) as error:
            raise FetchError(f"{url}: {str(error) or type(error).__name__}") from None
        finally:
            self._ended_at[url.host] = time.monotonic()

    def _request(self, url: Url, form: Mapping[str, str] | None) -> dict[str, Any]:
        return {
            "method": "GET" if form is None else "POST",
            # As it is: yarl would quote again what has been quoted.
            "url": yarl.URL(str(url), encoded=True),
            "data": None if form is None else urlencode(form).encode(),
            "headers": self._headers | ({} if form is None else {"Content-Type": _FORM}),
            "timeout": aiohttp.ClientTimeout(total=self._timeout_s),
            "ssl": self._ssl_context,
            "allow_redirects": False,
            "proxy": self._proxy(url),
        }

    def _proxy(self, url: Url) -> str | None:
        scheme, _, name = url.host.partition("://")
        if not self._uses_proxies or proxy_bypass(name.partition(":")[0]):
            return None
        return getproxies().get(scheme)

    async def _keep_pace(self, host: str) -> None:
        if host in self._ended_at:
            await asyncio.sleep(self._ended_at[host] + self._delay_s - time.monotonic())


def _location(response: aiohttp.ClientResponse) -> str:
    found = [value for name, value in response.raw_headers if name.lower() == b"location"]
    return location(found[0] if found else None)


async def _body(response: aiohttp.ClientResponse, most_bytes: int, url: Url) -> bytes:
    """The body without its encoding, as long as it is no larger than it may be."""
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    unpack = zlib.decompressobj(_AS_ANY) if encoding in ("gzip", "x-gzip", "deflate") else None
    if unpack is None and encoding != "identity":
        raise FetchError(f"{url}: comes in the encoding {encoding[:40]}, which was not asked for")
    body = bytearray()
    async for chunk in response.content.iter_any():
        try:
            body += unpack.decompress(chunk, most_bytes + 1 - len(body)) if unpack else chunk
        except zlib.error as error:
            raise FetchError(f"{url}: cannot be unpacked: {error}") from None
        if len(body) > most_bytes:
            raise FetchError(f"{url}: more than {most_bytes:,} bytes")
    return bytes(body)
