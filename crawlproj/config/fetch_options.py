"""The settings of downloads: where to, how, for how long, and whom to trust."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crawlproj.config.kinds import (
    CA_FILE,
    CERTIFICATES,
    COUNT,
    MEGABYTES,
    NETWORKS,
    POSITIVE,
    PROXIES,
    RENDER,
    SECONDS,
    TEXT,
    WORDS,
    one_of,
)
from crawlproj.config.option import option


@dataclass(frozen=True)
class FetchOptions:
    """Part of `Config`."""

    allow_addresses: tuple[str, ...] = option(
        "CRAWL_ALLOW_ADDRESSES",
        (),
        NETWORKS,
        "addresses beside the public ones: loopback, private, or networks such as 10.1.0.0/16",
    )
    proxies: tuple[str, ...] = option(
        "CRAWL_PROXIES",
        (),
        PROXIES,
        "proxies that a request may name in meta: http://user:password@host:port, comma-separated",
    )
    content_types: tuple[str, ...] = option(
        "CRAWL_CONTENT_TYPES",
        ("text/html", "application/xhtml+xml"),
        WORDS,
        "content whose body is read, of other content the headers; unless it is set, of the pages "
        "of `site` alone: callbacks of your own get everything",
    )
    dns_ttl_s: float = option(
        "CRAWL_DNS_TTL", 300.0, SECONDS, "seconds for which a resolved name is believed"
    )
    http: str = option(
        "CRAWL_HTTP",
        "2",
        one_of("1.1", "2", "3"),
        "highest version of HTTP that is spoken; servers choose among it and those below",
    )
    connect_timeout_s: float = option(
        "CRAWL_CONNECT_TIMEOUT",
        15.0,
        SECONDS,
        "seconds for a connection with its handshake; 0: those of DOWNLOAD_TIMEOUT",
    )
    first_byte_timeout_s: float = option(
        "CRAWL_FIRST_BYTE_TIMEOUT",
        0.0,
        SECONDS,
        "seconds until a server begins to answer; 0: those of DOWNLOAD_TIMEOUT",
    )
    ca_file: str = option(
        "CRAWL_CA_FILE", "", CA_FILE, "file of certificates (PEM) to trust beside the usual ones"
    )
    render: str | None = option(
        "CRAWL_RENDER",
        None,
        RENDER,
        "pages whose scripts are run: auto (those that say little without), always, or a regular "
        "expression of URLs; see docs/rendering.md",
        "render",
    )
    render_timeout_s: float = option(
        "CRAWL_RENDER_TIMEOUT",
        20.0,
        POSITIVE,
        "seconds that the scripts of a page have; then it is taken as it is",
    )
    render_pages: int = option(
        "CRAWL_RENDER_PAGES", 4, COUNT, "pages in the browser of one worker at a time"
    )
    render_memory_mb: float = option(
        "CRAWL_RENDER_MEMORY_MB",
        1500.0,
        MEGABYTES,
        "memory of the browser's processes at which another is started in its place",
    )
    render_hosts: tuple[str, ...] = option(
        "CRAWL_RENDER_HOSTS",
        (),
        WORDS,
        "hosts beside a page's own that its scripts may ask: cdn.example.com, comma-separated",
    )
    browser: str = option(
        "CRAWL_BROWSER", "", TEXT, "program that runs scripts; the installed Chromium without it"
    )
    client_certificates: Mapping[str, Any] | None = option(
        "CRAWL_CLIENT_CERTIFICATES",
        None,
        CERTIFICATES,
        "by host, the file with our certificate and its key (PEM), or a list of two files",
    )
