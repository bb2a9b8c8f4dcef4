"""A client for a worker, made of its settings."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pycurl

from crawlproj.config import Config
from crawlproj.fetch.addresses import AddressPolicy
from crawlproj.fetch.client import Client
from crawlproj.fetch.open_files import raise_limit
from crawlproj.fetch.resolving import Names, SystemResolver
from crawlproj.fetch.tls import Tls
from crawlproj.running import running_crawl, seed_names

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)


_clients: WeakKeyDictionary[Crawler, Client] = WeakKeyDictionary()


def client_of(crawler: Crawler) -> Client:
    """The client of a worker. Scrapy makes a handler for each scheme, and they share it: to which
    addresses a name first resolved, and how many connections are kept, is known once."""
    client = _clients.get(crawler)
    if client is None:
        client = _clients[crawler] = _opened(crawler)
    return client


def _opened(crawler: Crawler) -> Client:
    settings = crawler.settings
    config = Config.from_settings(settings)
    raise_limit()
    return Client(
        AddressPolicy(config.allow_addresses, functools.partial(seed_names, crawler)),
        Names(SystemResolver(), *_remembering(settings, config)),
        Tls(settings),
        http=config.http,
        connect_s=config.connect_timeout_s,
        first_byte_s=config.first_byte_timeout_s,
        may_send=functools.partial(holds_its_leases, crawler),
        options=_talking(settings),
    )


def _remembering(settings: BaseSettings, config: Config) -> tuple[float, int]:
    """For how long names are remembered, and how many."""
    is_on = settings.getbool("DNSCACHE_ENABLED")
    return config.dns_ttl_s if is_on else 0.0, settings.getint("DNSCACHE_SIZE")


def _talking(settings: BaseSettings) -> list[tuple[int, Any]]:
    """What libcurl says of its connections goes to the log, if it is asked for."""
    if not settings.getbool("DOWNLOADER_CLIENT_TLS_VERBOSE_LOGGING"):
        return []
    return [(pycurl.VERBOSE, 1), (pycurl.DEBUGFUNCTION, _log)]


def _log(kind: int, text: bytes) -> None:
    if kind == pycurl.INFOTYPE_TEXT:
        logger.debug("%s", text.decode("utf-8", "replace").rstrip())


def holds_its_leases(crawler: Crawler) -> bool:
    """Whether what is under way, or about to be, is still this worker's for certain."""
    crawl = running_crawl(crawler)
    return crawl is None or crawl.worker.has_valid_leases
