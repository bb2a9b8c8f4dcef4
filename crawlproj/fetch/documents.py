"""Documents that a command needs of the web: a sitemap, a feed, a page of search results.

One after the other, at the crawl's pace for each host, and under what holds for a worker: only to
addresses that the policy of addresses.py passes on every hop, within limits of time and size. What
goes wrong is one FetchError, whose text is one line.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import urlencode
from urllib.request import getproxies, proxy_bypass

from scrapy.exceptions import DownloadCancelledError, DownloadTimeoutError

from crawlproj.config import Config
from crawlproj.errors import CrawlError
from crawlproj.fetch.addresses import AddressPolicy
from crawlproj.fetch.client import Client
from crawlproj.fetch.exchange import Answer, Call
from crawlproj.fetch.resolving import Names, SystemResolver
from crawlproj.fetch.tls import Tls
from crawlproj.fetch.unpacking import ACCEPTED, TooLarge, Unreadable, unpack
from crawlproj.urls import Url, UrlError, bare_name, location, normalise

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_KEEP_METHOD = (307, 308)
_FORM = b"application/x-www-form-urlencoded"


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
        self._settings = settings
        self._http = config.http
        self._headers = [
            (b"User-Agent", settings["USER_AGENT"].encode("latin-1", "replace")),
            (b"Accept-Encoding", ACCEPTED),
        ]
        self._timeout_s = settings.getfloat("DOWNLOAD_TIMEOUT")
        self._uses_proxies = settings.getbool("HTTPPROXY_ENABLED")
        self._delay_s = config.delay_s or 0.0
        self._ended_at: dict[str, float] = {}

    async def __aenter__(self) -> Self:
        self._client = Client(
            self._policy, Names(SystemResolver(), 60.0, 1000), Tls(self._settings), http=self._http
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    def name(self, url: Url) -> None:
        """The user has named this URL."""
        self._named.append(url.authority)

    def is_named_by_user(self, url: Url) -> bool:
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
            answer = await self._client.exchange(self._call(url, form, most_bytes))
            status = answer.head.status
            if status in _REDIRECTS and (to := location(_field(answer, b"location"))):
                return Document(str(url), status, b""), to
            return Document(str(url), status, _body(answer, most_bytes)), None
        except (TooLarge, DownloadCancelledError):
            raise FetchError(f"{url}: more than {most_bytes:,} bytes") from None
        except DownloadTimeoutError:
            raise FetchError(f"{url}: no answer within {self._timeout_s:g} s") from None
        except Unreadable as error:
            raise FetchError(f"{url}: cannot be unpacked: {error}") from None
        except Exception as error:  # failures.py has many names for what can go wrong
            raise FetchError(f"{url}: {str(error) or type(error).__name__}") from None
        finally:
            self._ended_at[url.host] = time.monotonic()

    def _call(self, url: Url, form: Mapping[str, str] | None, most_bytes: int) -> Call:
        is_form = form is not None
        return Call(
            url=str(url),
            method="POST" if is_form else "GET",
            headers=[*self._headers, *([(b"Content-Type", _FORM)] if is_form else [])],
            body=urlencode(form).encode() if form is not None else b"",
            timeout_s=self._timeout_s,
            most_bytes=most_bytes,
            proxy=self._proxy(url),
        )

    def _proxy(self, url: Url) -> str | None:
        scheme, _, name = url.host.partition("://")
        if not self._uses_proxies or proxy_bypass(name.partition(":")[0]):
            return None
        return getproxies().get(scheme)

    async def _keep_pace(self, host: str) -> None:
        if host in self._ended_at:
            await asyncio.sleep(self._ended_at[host] + self._delay_s - time.monotonic())


def _field(answer: Answer, wanted: bytes) -> bytes | None:
    found = [value for name, value in answer.head.fields() if name.lower() == wanted]
    return found[0] if found else None


def _body(answer: Answer, most_bytes: int) -> bytes:
    """The body without its encoding, as long as it is no larger than it may be."""
    encoding = _field(answer, b"content-encoding")
    if encoding is None or not answer.body:
        return answer.body
    body, left = unpack(answer.body, [encoding], most_bytes)
    if left:
        name = left[-1][:40].decode("latin-1")
        raise Unreadable(f"it comes in the encoding {name}, which was not asked for")
    return body
