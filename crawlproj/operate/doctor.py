"""The checks of `scrapy doctor`: settings, Redis, downloads, files, DNS, disk.

A check returns findings, each with what to do about it, and never raises.
"""

from __future__ import annotations

import shutil
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.request import getproxies

from redis.asyncio import RedisCluster
from redis.exceptions import RedisError
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from crawlproj.config import Config, environment
from crawlproj.errors import ConfigError, CrawlError
from crawlproj.fetch.handler import SafeDownloadHandler
from crawlproj.fetch.open_files import raise_limit
from crawlproj.server import connection

SLOW_MS = 10.0
"""A round trip to Redis from which on more of them are felt than batches can hide."""
PINGS = 20
FULL = 0.8
LEAST_FREE_GB = 1.0
FILES_BESIDE = 200
"""Open files that a worker needs beside its connections."""


class Finding(NamedTuple):
    level: Literal["ok", "warn", "fail"]
    about: str
    text: str


def check_settings(settings: BaseSettings) -> Iterator[Finding]:
    """Ours are known and valid, and servers can see whose crawler this is."""
    try:
        Config.from_settings(settings)
        yield Finding("ok", "settings", "all of ours are known and valid")
    except ConfigError as error:
        yield Finding("fail", "settings", str(error))
    agent = settings.get("USER_AGENT") or ""
    if "example.com" in agent or "scrapy.org" in agent:
        text = f"USER_AGENT is {agent!r}: name a page of yours where servers' owners can reach you"
        yield Finding("warn", "user agent", text)
    else:
        yield Finding("ok", "user agent", agent)
    if not settings.getbool("ROBOTSTXT_OBEY"):
        text = "robots.txt is not obeyed (ROBOTSTXT_OBEY): only for servers of your own"
        yield Finding("warn", "robots", text)


def check_downloads(settings: BaseSettings) -> Iterator[Finding]:
    """Whether pages come through our handler, which judges addresses: Scrapy's own handlers, HTTP/2
    among them, connect to whatever a name resolves to."""
    handlers = settings.getwithbase("DOWNLOAD_HANDLERS")
    for scheme in ("http", "https"):
        path = handlers.get(scheme)
        if path is not None and not _judges_addresses(path):
            text = f"{path} does not judge addresses: pages can lead it into your own network"
            yield Finding("warn", f"{scheme} downloads", text)


def check_proxies(settings: BaseSettings) -> Iterator[Finding]:
    """Names are judged by what they resolve to, and a proxy resolves them elsewhere."""
    found = getproxies() if settings.getbool("HTTPPROXY_ENABLED") else {}
    names = [f"{scheme}_proxy" for scheme in ("http", "https") if scheme in found]
    if environment.given(settings, "CRAWL_PROXIES"):
        names.append("CRAWL_PROXIES")
    if names:
        text = (
            f"{', '.join(names)}: behind a proxy no name is judged by its address, so the proxy "
            "itself must refuse what lies in your own network"
        )
        yield Finding("warn", "proxy", text)


def _judges_addresses(handler: Any) -> bool:
    try:
        return issubclass(load_object(handler), SafeDownloadHandler)
    except (ImportError, NameError, TypeError, ValueError):
        return False


async def check_redis(settings: BaseSettings) -> list[Finding]:
    """It answers, is recent, keeps what it is told, drops nothing, and is near."""
    try:
        resolved = connection.resolve_for_command(settings)
        client = await connection.connect(resolved.url, resolved.params)
    except CrawlError as error:
        return [Finding("fail", "redis", str(error))]
    where = connection.mask(resolved.url)
    findings = [Finding("warn", "redis", resolved.notice)] if resolved.notice else []
    try:
        for name, info in (await _infos(client)).items():
            findings += _judge(name or where, info)
        findings.append(await _latency(client))
    except RedisError as error:
        findings.append(Finding("fail", "redis", f"{where}: {error}"))
    finally:
        await client.aclose()
    return findings


async def _infos(client: Any) -> dict[str, Mapping[str, Any]]:
    """INFO by node; a single server has no name."""
    if not isinstance(client, RedisCluster):
        return {"": await client.info()}
    return {node.name: await client.info(target_nodes=node) for node in client.get_primaries()}


def _judge(where: str, info: Mapping[str, Any]) -> Iterator[Finding]:
    # Too old a version and an evicting policy have been refused by connect().
    kind = "Valkey" if "valkey_version" in info else "Redis"
    version = info.get("valkey_version") or info.get("redis_version")
    yield Finding("ok", "redis", f"{where}: {kind} {version}, which drops no keys")
    yield _persistence(info)
    limit, used = int(info.get("maxmemory", 0)), int(info.get("used_memory", 0))
    if limit and used > FULL * limit:
        text = f"{used / limit:.0%} of maxmemory is used: raise it, or new URLs will have to wait"
        yield Finding("warn", "memory", text)
    else:
        of = f" of {limit / 2**20:,.0f} MB" if limit else ", without a limit"
        yield Finding("ok", "memory", f"{used / 2**20:,.0f} MB used{of}")


def _persistence(info: Mapping[str, Any]) -> Finding:
    for name in ("aof_last_write_status", "rdb_last_bgsave_status"):
        if info.get(name, "ok") != "ok":
            text = f"{name} is {info[name]}: see Redis's log and the disk it writes to"
            return Finding("fail", "persistence", text)
    if info.get("aof_enabled"):
        return Finding("ok", "persistence", "every write is logged (appendonly)")
    text = (
        "a crawl is lost, or falls back to the last snapshot, when Redis crashes: "
        "redis-cli config set appendonly yes"
    )
    return Finding("warn", "persistence", text)


async def _latency(client: Any) -> Finding:
    took_ms = []
    for _ in range(PINGS):
        began_s = time.perf_counter()
        await client.ping()
        took_ms.append((time.perf_counter() - began_s) * 1000)
    median_ms = statistics.median(took_ms)
    if median_ms > SLOW_MS:
        text = f"{median_ms:.1f} ms a round trip: use a Redis nearer to the workers"
        return Finding("warn", "latency", text)
    return Finding("ok", "latency", f"{median_ms:.1f} ms a round trip")


def check_files(settings: BaseSettings) -> Iterator[Finding]:
    """Enough open files are allowed for the connections that are wanted."""
    import resource  # which not every system has, and commands must load on all

    raise_limit()  # as workers do
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = settings.getint("CONCURRENT_REQUESTS") + FILES_BESIDE
    if allowed < needed:
        text = f"{allowed} open files are allowed and {needed} may be needed: ulimit -n {needed}"
        yield Finding("fail", "file limit", text)
    else:
        yield Finding("ok", "file limit", f"{allowed:,} open files")


def check_dns(name: str) -> Iterator[Finding]:
    """Names can be looked up."""
    began_s = time.perf_counter()
    try:
        socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM)
    except OSError as error:
        text = f"{name} cannot be looked up ({error.strerror}): check the network and its resolver"
        yield Finding("warn", "dns", text)
        return
    took_ms = (time.perf_counter() - began_s) * 1000
    yield Finding("ok", "dns", f"{name} was looked up in {took_ms:.0f} ms")


def check_output(settings: BaseSettings) -> Iterator[Finding]:
    """Rows can be written, and there is room for them."""
    folder = Path(environment.given(settings, "CRAWL_OUTPUT") or "output").resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        free_gb = shutil.disk_usage(folder).free / 1e9
    except OSError as error:
        text = f"{folder}: {error.strerror}: make it writable, or set CRAWL_OUTPUT"
        yield Finding("fail", "output", text)
        return
    if free_gb < LEAST_FREE_GB:
        text = f"{folder}: {free_gb:.1f} GB free: make room, or set CRAWL_OUTPUT"
        yield Finding("warn", "output", text)
    else:
        yield Finding("ok", "output", f"{folder}: {free_gb:,.0f} GB free")
