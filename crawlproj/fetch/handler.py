"""How pages are downloaded: Scrapy's interface to the client of client.py.

Every socket, but for those to proxies, is opened to an address that the policy of addresses.py has
passed. Whatever a server
does ends, within the limits of time and size, in a response or in an exception that
frontier/failures.py has a word for. Pace and retries are not decided here.

Who wants a page as it came over the wire asks for it in `request.meta` (wire.py).
"""

from __future__ import annotations

import asyncio
import functools
import logging
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.exceptions import DownloadCancelledError, IgnoreRequest, ResponseDataLossError
from scrapy.http import Headers, Response

from crawlproj.config import Config
from crawlproj.engine import responses
from crawlproj.engine.signals import is_heard
from crawlproj.errors import BadResponse, NoLongerOurs
from crawlproj.fetch.exchange import Answer, Call, Head
from crawlproj.fetch.opening import client_of, holds_its_leases
from crawlproj.fetch.unpacking import ACCEPTED, TooLarge, Unreadable, unpack
from crawlproj.fetch.wire import wire
from crawlproj.frontier.meta_keys import BEGINNING, KEEP_WIRE, PACKED, PROXY, WIRE
from crawlproj.running import RunningCrawl, when_joined

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.exceptions import StopDownload

    from crawlproj.fetch.rendering.renderer import Renderer

logger = logging.getLogger(__name__)

_ACCEPT_ENCODING = b"Accept-Encoding"
LARGE_BYTES = 256 * 1024
"""Packed bodies from this size are unpacked in a thread: it takes longer than handing them over."""

DEFAULT_TIMEOUT_S = 180.0
BODILESS = frozenset({204, 304})
"""Responses that announce the size of a body that they do not have."""
MOST_DIGITS = 19
"""Of a length; more would not fit on any disk, and Python reads no number of thousands of them."""
_PROXY_AUTHORIZATION = b"Proxy-Authorization"
_address = functools.lru_cache(10_000)(ip_address)


class SafeDownloadHandler(BaseDownloadHandler):
    """`DOWNLOAD_HANDLERS` of http and https."""

    lazy = False

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        settings = crawler.settings
        self._client = client_of(crawler)
        self._unpacks = settings.getbool("COMPRESSION_ENABLED")
        self._most_bytes = settings.getint("DOWNLOAD_MAXSIZE")
        self._many_bytes = settings.getint("DOWNLOAD_WARNSIZE")
        self._timeout_s = settings.getfloat("DOWNLOAD_TIMEOUT") or DEFAULT_TIMEOUT_S
        self._fails_on_loss = settings.getbool("DOWNLOAD_FAIL_ON_DATALOSS")
        self._has_told_of_loss = False
        self._bind = _bind_address(settings.get("DOWNLOAD_BIND_ADDRESS"))
        self._render = Config.from_settings(settings).render
        self._renderer: Renderer | None = None
        when_joined(crawler, self._joined)

    async def download_request(self, request: Request) -> Response:
        response = await self._fetch(request)
        if self._render is not None:
            response = await self._rendered(request, response, self._render)
        return response

    async def _fetch(self, request: Request) -> Response:
        if self._unpacks:
            dict.setdefault(request.headers, _ACCEPT_ENCODING, [ACCEPTED])
        page = _Page(self, request)
        call = self._call(request, page)
        try:
            answer = await self._client.exchange(call)
        except IgnoreRequest:
            raise
        except Exception as error:
            if not holds_its_leases(self.crawler):
                raise NoLongerOurs from error
            self._complain(request, error)
            raise
        request.meta["download_latency"] = answer.latency_s
        if request.meta.get(KEEP_WIRE):
            request.meta[WIRE] = wire(call, answer)
        return await page.response(answer)

    def break_off(self) -> int:
        """Break off what is under way; returns how many requests that were."""
        return self._client.break_off()

    async def close(self) -> None:
        if self._renderer is not None:
            await self._renderer.close()
        await self._client.close()

    def _joined(self, crawl: RunningCrawl) -> None:
        """Which pages are rendered belongs to the crawl."""
        self._render = crawl.frontier.plan.render

    async def _rendered(self, request: Request, response: Response, mode: str) -> Response:
        """The page after its scripts have run, where it needs them."""
        if self._renderer is None:
            from crawlproj.fetch.rendering.renderer import Renderer  # which few crawls need

            self._renderer = Renderer(self.crawler, mode, self._fetch)
        if not self._renderer.is_wanted(request, response):
            return response
        return await self._renderer.render(request, response)

    def _call(self, request: Request, page: _Page) -> Call:
        meta = request.meta
        beginning = meta.get(BEGINNING)
        proxy = meta.get(PROXY)
        return Call(
            url=request.url,
            method=request.method,
            headers=_sent_headers(request),
            body=request.body,
            timeout_s=meta.get("download_timeout") or self._timeout_s,
            most_bytes=page.most_bytes if beginning is None else beginning,
            is_enough=beginning is not None,
            keeps_part=not meta.get("download_fail_on_dataloss", self._fails_on_loss),
            proxy=proxy and (proxy if "://" in proxy else f"http://{proxy}"),
            proxy_authorization=request.headers.get(_PROXY_AUTHORIZATION) if proxy else None,
            bind=_bind_address(meta.get("bindaddress")) or self._bind,
            on_head=page.on_head,
            on_bytes=page.on_bytes if is_heard(self.crawler, signals.bytes_received) else None,
        )

    def _complain(self, request: Request, error: Exception) -> None:
        """Say what Scrapy's handlers say of it."""
        if isinstance(error, DownloadCancelledError):
            logger.warning("%s", error)
        elif isinstance(error, ResponseDataLossError) and not self._has_told_of_loss:
            self._has_told_of_loss = True
            logger.warning(
                "Got data loss in %s. If you want to process broken responses set the setting "
                "DOWNLOAD_FAIL_ON_DATALOSS = False -- This message won't be shown in further "
                "requests",
                request.url,
            )


class _Page:
    """One response in the making."""

    def __init__(self, handler: SafeDownloadHandler, request: Request) -> None:
        self._crawler = handler.crawler
        self._unpacks = handler._unpacks and not request.meta.get(PACKED)
        self._request = request
        self._stop: StopDownload | None = None
        self._headers = responses.ResponseHeaders()
        self.most_bytes: int = request.meta.get("download_maxsize", handler._most_bytes)
        self.many_bytes: int = request.meta.get("download_warnsize", handler._many_bytes)

    def on_head(self, head: Head) -> bool:
        """The headers have come; True if nothing more is wanted."""
        headers = self._headers
        for name, value in head.fields():
            dict.setdefault(headers, name.title(), []).append(value)
        announced = _length(headers)
        self._stop = responses.stop_asked(
            signals.headers_received,
            self._crawler,
            self._request,
            headers=headers,
            body_length=announced,
        )
        # After who may not want the body: one that does not come may be as large as it likes.
        if self._stop is None and announced is not None and self._expects_body(head.status):
            self._check_size(announced, "Expected to receive")
        return self._stop is not None

    def _expects_body(self, status: int) -> bool:
        request = self._request
        return request.method != "HEAD" and status not in BODILESS and BEGINNING not in request.meta

    def on_bytes(self, piece: bytes) -> bool:
        """Part of the body has come; True if nothing more is wanted."""
        self._stop = responses.stop_asked(
            signals.bytes_received, self._crawler, self._request, data=piece
        )
        return self._stop is not None

    def _check_size(self, size: int, what: str) -> None:
        text = f"{what} {size} bytes which is larger than download"
        if 0 < self.most_bytes < size:
            raise DownloadCancelledError(
                f"{text} max size ({self.most_bytes}): {self._request.url}"
            )
        if 0 < self.many_bytes < size:
            logger.warning("%s warn size (%d): %s", text, self.many_bytes, self._request.url)
            self.many_bytes = 0  # said once

    async def response(self, answer: Answer) -> Response:
        """The response for Scrapy, its body unpacked."""
        head, body, headers = answer.head, answer.body, self._headers
        if body and self._unpacks and b"Content-Encoding" in headers:
            body = await self._unpacked(body)
        if 0 < self.many_bytes < len(body):
            self._check_size(len(body), "Received")
        known: responses.ResponseArgs = {
            "status": head.status,
            "url": self._request.url,
            "headers": headers,
            "certificate": answer.certificate,
            "ip_address": _address(head.address) if head.address else None,
            "protocol": head.protocol,
        }
        flags = ["dataloss"] if answer.is_cut_off else ()
        return responses.build(known, body, flags=flags, stop=self._stop)

    async def _unpacked(self, body: bytes) -> bytes:
        """Unpacked here and not by Scrapy's middleware, whose errors are told to nobody: a page
        that it could not unpack would count as ignored."""
        encodings = self._headers.getlist(b"Content-Encoding")
        try:
            if len(body) < LARGE_BYTES:
                unpacked, left = unpack(body, encodings, self.most_bytes)
            else:
                unpacked, left = await asyncio.to_thread(unpack, body, encodings, self.most_bytes)
        except TooLarge as error:
            raise DownloadCancelledError(f"{self._request.url}: {error}") from error
        except Unreadable as error:
            raise BadResponse(str(error)) from error
        if left:
            logger.warning("%s is in an unknown encoding: %r", self._request.url, left)
            self._headers[b"Content-Encoding"] = left
        else:
            del self._headers[b"Content-Encoding"]
        stats = self._crawler.stats
        assert stats is not None
        stats.inc_value("httpcompression/response_bytes", len(unpacked))
        stats.inc_value("httpcompression/response_count")
        return unpacked


def _bind_address(value: Any) -> tuple[str, int] | None:
    """Often a list, where it has come from JSON."""
    return (value, 0) if isinstance(value, str) else tuple(value) if value else None


def _sent_headers(request: Request) -> list[tuple[bytes, bytes]]:
    """The headers of a request; what is for a proxy does not go further."""
    return [
        (name, value)
        for name, values in dict.items(request.headers)
        if name != _PROXY_AUTHORIZATION
        for value in values
    ]


def _length(headers: Headers) -> int | None:
    """The length that is announced; raises BadResponse if it is none, or two."""
    found = dict.get(headers, b"Content-Length")
    if not found:
        return None
    if len(set(found)) > 1 or not found[0].isdigit() or len(found[0]) > MOST_DIGITS:
        raise BadResponse(f"Content-Length is {found!r:.100}")
    return int(found[0])
