"""How pages are downloaded: Scrapy's aiohttp handler, made safe against what it connects to.

Every connection (connections.py) goes to an address that the policy of addresses.py has passed.
Whatever a server does ends, within the time and size limits, in a response or in an exception
that worker/outcome.py has a word for.

This and connections.py lean on parts of aiohttp that are not its public interface:
`tests/crawl/test_addresses.py` and `test_bad_http.py` fail when a new version changes them.
Pace and retries are not decided here.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, ClassVar, cast

import aiohttp
import yarl
from aiohttp import hdrs
from multidict import CIMultiDict
from scrapy import signals
from scrapy.core.downloader.handlers._aiohttp import AiohttpDownloadHandler, _ClientResponse
from scrapy.core.downloader.handlers._base_streaming import (
    BaseStreamingDownloadHandler,
    _BaseResponseArgs,
)
from scrapy.downloadermiddlewares.httpcompression import (
    ACCEPTED_ENCODINGS,
    HttpCompressionMiddleware,
)
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    UnsupportedURLSchemeError,
)
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes
from scrapy.utils._download_handlers import check_stop_download, make_response
from scrapy.utils.ssl import _make_ssl_context

from crawlproj.config import Config
from crawlproj.errors import NoLongerOurs
from crawlproj.fetch.addresses import AddressPolicy
from crawlproj.fetch.connections import SafeConnector, SystemResolver
from crawlproj.politeness.wanted import BEGINNING
from crawlproj.running import running_crawl, seed_names

if TYPE_CHECKING:
    from aiohttp.connector import Connection
    from scrapy import Request
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

HEADER_LINE_BYTES = 16 * 1024
HEADERS = 256
ACCEPTED = b", ".join(ACCEPTED_ENCODINGS)
ENCODINGS = 2
"""Content encodings on top of each other; more serve nobody but who wants us busy."""


class BadResponse(Exception):
    """A server that does not speak HTTP as it should; asking again would not help."""


class BadCertificate(Exception):
    """A server that cannot prove to be who it should be; asking again would not help."""


class SafeDownloadHandler(AiohttpDownloadHandler):
    """`DOWNLOAD_HANDLERS` of http and https.

    A proxy (`meta["proxy"]`) is the user's own choice and may be at any address. It resolves the
    names that it is asked for, so behind one only URLs that hold an address can be judged.
    """

    experimental: ClassVar[bool] = False

    def __init__(self, crawler: Crawler) -> None:
        # Not the parent's: that opens a session of its own.
        BaseStreamingDownloadHandler.__init__(self, crawler)
        config = Config.from_settings(crawler.settings)
        policy = AddressPolicy(config.allow_addresses, functools.partial(seed_names, crawler))
        self._ssl_context = _make_ssl_context(crawler.settings)
        self._session = open_session(
            SafeConnector(
                policy,
                functools.partial(_is_ours, crawler),
                local_addr=self._bind_address,
                limit=0,
                resolver=SystemResolver(),
                use_dns_cache=crawler.settings.getbool("DNSCACHE_ENABLED"),
                ttl_dns_cache=config.dns_ttl_s,
                dns_cache_max_size=crawler.settings.getint("DNSCACHE_SIZE"),
            )
        )
        self._compression = HttpCompressionMiddleware(crawler=crawler)
        self._unpacks = crawler.settings.getbool("COMPRESSION_ENABLED")

    async def download_request(self, request: Request) -> Response:
        if self._unpacks:
            request.headers.setdefault("Accept-Encoding", ACCEPTED)
        if request.meta.get("bindaddress"):
            logger.error("bindaddress of %s is ignored: DOWNLOAD_BIND_ADDRESS is for all", request)
        response = await self._fetch(request)
        is_encoded = self._unpacks and response.body and "Content-Encoding" in response.headers
        return self._decoded(request, response) if is_encoded else response

    async def _fetch(self, request: Request) -> Response:
        timeout_s = request.meta.get("download_timeout", self._DEFAULT_CONNECT_TIMEOUT)
        began_s = time.monotonic()
        try:
            async with await self._session.request(
                request.method,
                # As it is: yarl would quote again what has been quoted.
                yarl.URL(request.url, encoded=True),
                data=request.body or None,
                headers=_sent_headers(request),
                timeout=_timeout(timeout_s),
                ssl=self._ssl_context,
                allow_redirects=False,
                proxy=self._extract_proxy_url_with_creds(request),
            ) as response:
                request.meta["download_latency"] = time.monotonic() - began_s
                return await self._read_response(cast("_ClientResponse", response), request)
        except TimeoutError as error:
            raise DownloadTimeoutError(f"{request.url} took longer than {timeout_s} s") from error
        except (aiohttp.ClientError, ValueError) as error:
            if not _is_ours(self.crawler):
                raise NoLongerOurs from error
            raise _named(error) from error

    async def _read_response(self, response: _ClientResponse, request: Request) -> Response:
        most = request.meta.get(BEGINNING)
        if most is None:
            read = self._in_one_piece(response, request)
            return read or await super()._read_response(response, request)
        known = self._build_base_response_args(response, request, self._extract_headers(response))
        body = bytearray()
        async for chunk in self._iter_body_chunks(response):
            body += chunk
            if len(body) > most:
                break
        return make_response(**known, body=bytes(body[: most + 1]))

    def _in_one_piece(self, response: _ClientResponse, request: Request) -> Response | None:
        """What Scrapy makes of a page whose body has come with its headers; None if it has not, or
        if Scrapy would have more to say."""
        content, headers = response.content, self._extract_headers(response)
        length = headers.get(b"Content-Length")
        announced = None if length is None else int(length)
        if (
            not content.is_eof()
            or content.exception() is not None
            or self._tls_verbose_logging
            or self._is_large(announced or content.total_bytes, request)
        ):
            return None
        known = self._build_base_response_args(response, request, headers)
        tell = functools.partial(check_stop_download, crawler=self.crawler, request=request)
        if stop := tell(signals.headers_received, headers=headers, body_length=announced):
            return make_response(**known, stop_download=stop)
        body = content.read_nowait()
        stop = tell(signals.bytes_received, data=body) if body else None
        if stop:
            return make_response(**known, body=body, stop_download=stop)
        return _response(known, body)

    def _is_large(self, size: int, request: Request) -> bool:
        """Whether it is refused or warned of."""
        most: int = request.meta.get("download_maxsize", self._default_maxsize)
        much: int = request.meta.get("download_warnsize", self._default_warnsize)
        return 0 < most < size or 0 < much < size

    def cut(self) -> int:
        """Break off what is under way; returns how many requests that were."""
        return cast("SafeConnector", self._session.connector).cut()

    @staticmethod
    def _extract_headers(response: _ClientResponse) -> Headers:
        """The headers byte by byte as they came."""
        headers = Headers()
        for name, value in response.raw_headers:
            dict.setdefault(headers, name.title(), []).append(value)
        return headers

    @staticmethod
    def _build_base_response_args(
        response: _ClientResponse, request: Request, headers: Headers
    ) -> _BaseResponseArgs:
        version, over_tls = response.version, response._ssl_object
        assert response._peername is not None
        return {
            "status": response.status,
            "url": request.url,
            "headers": headers,
            "certificate": over_tls.getpeercert(binary_form=True) if over_tls else None,
            "ip_address": _address(response._peername[0]),
            "protocol": f"HTTP/{version.major}.{version.minor}" if version else "HTTP/1.1",
        }

    def _decoded(self, request: Request, response: Response) -> Response:
        """The response with its body unpacked.

        Scrapy's middleware does the same, but what it raises is told to nobody: a page that it
        could not unpack would count as ignored. Unpacked here, it is left with nothing to do.
        """
        encodings = b",".join(response.headers.getlist("Content-Encoding"))
        if encodings.count(b",") >= ENCODINGS:
            raise BadResponse(f"more than {ENCODINGS} content encodings: {encodings[:100]!r}")
        try:
            packed = _as_bytes(response)
            return cast("Response", self._compression.process_response(request, packed))
        except IgnoreRequest as error:
            raise DownloadCancelledError(str(error)) from error
        except Exception as error:  # each codec has its own
            raise BadResponse(f"not {encodings[:100]!r}: {error}") from error


def _as_bytes(response: Response) -> Response:
    """A response whose body is no text yet. Scrapy copies one that is text, by the name of its URL,
    together with its charset, which it would look for in the packed bytes: at several times the
    cost of unpacking them, and for nothing."""
    if type(response) is Response:
        return response
    return Response(**{name: getattr(response, name) for name in Response.attributes})


_timeout = functools.lru_cache(lambda seconds: aiohttp.ClientTimeout(total=seconds))
_address = functools.lru_cache(ip_address)


def _response(known: _BaseResponseArgs, body: bytes) -> Response:
    """As Scrapy's make_response, which copies the headers and works out, anew for each page, which
    class their content type stands for."""
    headers = known["headers"]
    kind = _class_of(headers.get(b"Content-Type"), headers.get(b"Content-Encoding"))
    if kind is Response:
        return make_response(**known, body=body)  # by its name, or what it looks like
    others: dict[str, Any] = {**known, "headers": None}
    response = kind(**others, body=body)
    response.headers = headers
    return response


@functools.lru_cache
def _class_of(content_type: bytes | None, encoding: bytes | None) -> type[Response]:
    return responsetypes.from_content_type(content_type, encoding) if content_type else Response


def _sent_headers(request: Request) -> CIMultiDict[str]:
    """The headers of a request as aiohttp wants them; what is for a proxy does not go further."""
    headers: CIMultiDict[str] = CIMultiDict()
    encoding = request.headers.encoding
    for name, values in dict.items(request.headers):
        if name != b"Proxy-Authorization":
            for value in values:
                headers.add(name.decode(encoding), value.decode(encoding))
    return headers


def _is_ours(crawler: Crawler) -> bool:
    """Whether what is under way, or about to be, is still this worker's for certain."""
    crawl = running_crawl(crawler)
    return crawl is None or crawl.worker.is_sure


def _named(error: Exception) -> Exception:
    """What Scrapy calls an error of aiohttp, where it has a name for it, and we where not."""
    text = str(error) or type(error).__name__
    names: Sequence[tuple[type[Exception], type[Exception]]] = (
        (aiohttp.InvalidURL, UnsupportedURLSchemeError),
        (aiohttp.ClientConnectorCertificateError, BadCertificate),
        (aiohttp.ClientConnectorDNSError, CannotResolveHostError),
        (aiohttp.ClientConnectorError, DownloadConnectionRefusedError),
        (aiohttp.ClientHttpProxyError, DownloadFailedError),
        (aiohttp.ClientResponseError, BadResponse),
        (aiohttp.ClientError, DownloadFailedError),
    )
    for theirs, ours in names:
        if isinstance(error, theirs):
            return ours(text)
    return BadResponse(text)


def open_session(connector: SafeConnector) -> aiohttp.ClientSession:
    session = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        request_class=_Request,
        response_class=_Response,
        max_line_size=HEADER_LINE_BYTES,
        max_field_size=HEADER_LINE_BYTES,
        max_headers=HEADERS,
    )
    # It would ask again at once when a connection breaks, past the host's pace.
    session._retry_connection = False
    # It would copy them, to add the session's own, of which there are none.
    session._prepare_headers = _as_they_are  # type: ignore[method-assign]
    return session


def _as_they_are(headers: Any) -> CIMultiDict[str]:
    return CIMultiDict() if headers is None else headers


class _Request(aiohttp.ClientRequest):
    """A request with the headers that Scrapy has given it, and no others."""

    _skip_auto_headers = CIMultiDict({"Content-Type": None})

    def update_headers(self, headers: Any) -> None:
        if not headers or hdrs.HOST in headers:
            super().update_headers(headers)
            return
        self.headers = CIMultiDict({hdrs.HOST: self.url.host_port_subcomponent or ""})
        self.headers.extend(headers)

    def update_auto_headers(self, skip_auto_headers: Any) -> None:
        pass


class _Response(_ClientResponse):
    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        if connection.transport is None:
            raise aiohttp.ServerDisconnectedError
        return await super().start(connection)
