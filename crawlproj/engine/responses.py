"""What a download handler needs of Scrapy to make responses, and has no public interface for."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from scrapy.exceptions import StopDownload
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

    from scrapy import Request
    from scrapy.crawler import Crawler

STOPPED = "download_stopped"
"""Scrapy's flag on a response whose body was not read."""


class ResponseHeaders(Headers):
    """Scrapy's, which puts every name that it is asked for into its own form, each time anew."""

    def normkey(self, key: str | bytes) -> bytes:
        return _normal_name(key) if self.encoding == "utf-8" else super().normkey(key)

    def get(self, key: str | bytes, def_val: Any = None) -> bytes | None:
        values: list[bytes] | None = dict.get(self, self.normkey(key))
        if values is None and def_val is not None:
            return super().get(key, def_val)
        return values[-1] if values else None


@functools.lru_cache(1024)
def _normal_name(key: str | bytes) -> bytes:
    name = key.title()
    return name if isinstance(name, bytes) else name.encode()


class ResponseArgs(TypedDict):
    """What is known of a response when its headers have come."""

    status: int
    url: str
    headers: Headers
    certificate: NotRequired[Any]
    ip_address: NotRequired[IPv4Address | IPv6Address | None]
    protocol: str | None


def stop_asked(
    signal: object, crawler: Crawler, request: Request, **named: Any
) -> StopDownload | None:
    """Send headers_received or bytes_received; returns what a receiver has raised to stop."""
    replies = crawler.signals.send_catch_log(
        signal=signal, request=request, spider=crawler.spider, **named
    )
    for _, reply in replies:
        if isinstance(reply, Failure) and isinstance(reply.value, StopDownload):
            return reply.value
    return None


def build(
    known: ResponseArgs,
    body: bytes = b"",
    *,
    flags: Iterable[str] = (),
    stop: StopDownload | None = None,
) -> Response:
    """The response as Scrapy's handlers make it; raises `stop` if that is to be a failure.

    Scrapy copies the headers and works out, anew for each page, which class their content type
    stands for. Nothing here looks for a charset: who asks for the text does.
    """
    headers = known["headers"]
    kind = _class_of(headers.get(b"Content-Type"), headers.get(b"Content-Encoding"))
    if kind is Response:  # by its name, or what it looks like
        kind = responsetypes.from_args(headers=headers, url=known["url"], body=body)
    others: dict[str, Any] = {**known, "headers": None}
    response = kind(**others, body=body, flags=[*flags, STOPPED] if stop else [*flags])
    response.headers = headers
    if stop is not None and stop.fail:
        stop.response = response
        raise stop
    return response


@functools.lru_cache
def _class_of(content_type: bytes | None, encoding: bytes | None) -> type[Response]:
    return responsetypes.from_content_type(content_type, encoding) if content_type else Response
