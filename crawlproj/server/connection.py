"""The Redis client of this process: which Redis, how to reach it, and whether it will do.

It knows the ways in which Redis servers are addressed, protected and configured; what it meets
there is put into words by problems.py. It knows nothing of what the frontier keeps there.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from redis import exceptions
from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster
from redis.asyncio.connection import SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings
from scrapy.utils.conf import closest_scrapy_cfg
from scrapy.utils.project import inside_project

from crawlproj.config import environment
from crawlproj.errors import ConfigError, RedisUnavailable, RedisUnsuitable
from crawlproj.server.problems import (
    DEFAULT_HOST,
    DEFAULT_PORT,
    WITHOUT_ONE,
    address_of,
    explained,
)

RedisClient = Redis | RedisCluster

OUTAGE: tuple[type[Exception], ...] = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.ClusterError,
    exceptions.RedisClusterException,
    exceptions.ReadOnlyError,
    exceptions.TryAgainError,
)
"""What a client of ours raises while a Redis restarts or fails over: wait, and try again."""

OLDEST_VERSION = (7, 0)
SCHEMES = ("redis", "rediss", "unix")

# Overridden by REDIS_PARAMS and by the query of the URL.
DEFAULTS: Mapping[str, Any] = {
    "socket_connect_timeout": 5,
    "socket_timeout": 10,
    "socket_keepalive": True,
    # The same replies from every release of redis-py, and from servers behind old proxies.
    "protocol": 2,
}
# Never overridden: records are bytes, and only callers know which commands may be repeated.
FORCED: Mapping[str, Any] = {"decode_responses": False, "retry": Retry(NoBackoff(), 0)}
# Entries of REDIS_PARAMS that are refused: the URL names the server, and nothing is repeated.
NAMING = {"redis_cls", "url", "host", "port", "db", "unix_socket_path", "ssl"}
REPEATING = {"retry_on_timeout", "retry_on_error"}
TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")


@dataclass(frozen=True)
class Resolved:
    """Which Redis this process uses; `notice` is a text that the user should see, if any."""

    url: str
    params: dict[str, Any]
    notice: str | None = None


def resolve(settings: BaseSettings) -> Resolved:
    """Decide which Redis this process uses, and start the embedded one if it is that.

    The choice is written back to REDIS_URL, so that other readers of the settings (scrapy-redis
    among them) get the same, unless the settings are frozen already.
    """
    url, notice = redis_url(settings), None
    if url is None:
        url = f"redis://{DEFAULT_HOST}:{DEFAULT_PORT}"
        if environment.boolean(environment.given(settings, "FRONTIER_EMBEDDED")):
            url, notice = _embedded_url()
        url = _with_db(url, settings)
    if not settings.frozen:
        settings.set("REDIS_URL", url, priority="cmdline")
    return Resolved(url, settings.getdict("REDIS_PARAMS"), notice)


def resolve_for_command(settings: BaseSettings, *, may_begin: bool = False) -> Resolved:
    """As `resolve`, for a command. One that only looks starts no Redis in a folder that is no
    project and in which no crawl has begun; `may_begin` says that the command begins one."""
    is_home = may_begin or inside_project() or _embedded_folder().is_dir()
    if redis_url(settings) is None and not is_home:
        raise ConfigError(
            "no crawl has begun in this folder, no project is here, and no Redis was named: go to "
            "the folder of your crawl or project (where .redis or scrapy.cfg is), or give "
            "REDIS_URL=redis://host:6379/0"
        )
    return resolve(settings)


def redis_url(settings: BaseSettings) -> str | None:
    """The URL of the Redis that the user has named: command line, environment, settings."""
    url = (
        _named_url(_given_on_command_line(settings), {})
        or os.environ.get("REDIS_URL")
        or _named_url(settings, settings.getdict("REDIS_PARAMS"))
    )
    return _with_db(url, settings) if url else None


def mask(url: str) -> str:
    """The URL without its password, fit for logs and messages."""
    # By pattern and up to the last @: where the password is mistyped, a parser would leak it.
    url = re.sub(r"(?<=://)([^:@/]*):.*@", r"\1:***@", url)
    url = re.sub(r"(?<=://)[^:@/]+@", "***@", url)
    return re.sub(r"([?&](?:ssl_)?password=)[^&]*", r"\1***", url)


@contextlib.asynccontextmanager
async def client_of(redis: Resolved) -> AsyncIterator[RedisClient]:
    """A client of this Redis, closed at the end."""
    client = await connect(redis.url, redis.params)
    try:
        yield client
    finally:
        await client.aclose()


async def connect(url: str, params: Mapping[str, Any] | None = None) -> RedisClient:
    """A client of the Redis or Redis Cluster at this URL, which was found fit for a crawl.

    It never repeats a command that may have been run. (A redirection within a cluster, which it
    follows, comes instead of running it.)
    """
    options = _options(url, params or {})
    client = Redis.from_pool(BlockingConnectionPool(**options))
    async with _closed_on_failure(client):
        async with explained(options):
            info = await client.info()
        check(info, address_of(options))
        if not _is_cluster(info):
            return client
        async with explained(options):
            state = (await client.cluster("INFO"))["cluster_state"]
        if state != "ok":
            raise RedisUnavailable(
                f"The Redis Cluster at {address_of(options)} is in state {state}: see "
                f"redis-cli --cluster check {address_of(options)}"
            )
    await client.aclose()
    return await _connect_cluster(url, options)


def check(info: Mapping[str, Any], address: str) -> None:
    """Refuse a server on which a crawl would break or lose URLs, given its INFO."""
    version = str(info.get("redis_version", "0"))
    if "valkey_version" not in info and _numbers(version) < OLDEST_VERSION:
        raise RedisUnsuitable(
            f"The Redis at {address} is version {version}; a crawl needs Redis 7.0 or newer, or "
            f"Valkey: upgrade it, or name another in REDIS_URL; {WITHOUT_ONE}"
        )
    if info.get("loading"):
        raise RedisUnavailable(
            f"The Redis at {address} is still loading its data: start again in "
            f"{info.get('loading_eta_seconds', 'a few')} seconds"
        )
    if info.get("role") == "slave" and not _is_cluster(info):
        raise RedisUnsuitable(
            f"The Redis at {address} is a read-only replica: name its master "
            f"{info.get('master_host')}:{info.get('master_port')} in REDIS_URL"
        )
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise RedisUnsuitable(
            f"The Redis at {address} drops keys when it is full (maxmemory-policy {policy}), and a "
            f"crawl would lose URLs: redis-cli {_cli_target(address)} "
            "config set maxmemory-policy noeviction"
        )


# Which Redis


def _given_on_command_line(settings: BaseSettings) -> dict[str, Any]:
    names = ("REDIS_URL", "REDIS_HOST", "REDIS_PORT")
    wanted = SETTINGS_PRIORITIES["cmdline"]
    return {n: settings.get(n) for n in names if (settings.getpriority(n) or 0) >= wanted}


def _named_url(settings: Mapping[str, Any], params: Mapping[str, Any]) -> str | None:
    """A URL from scrapy-redis's settings; None when they name no server."""
    if url := settings.get("REDIS_URL") or params.get("url"):
        return str(url)
    host = settings.get("REDIS_HOST") or params.get("host")
    port = settings.get("REDIS_PORT") or params.get("port")
    if host or port:
        scheme = "rediss" if params.get("ssl") else "redis"
        host = f"[{host}]" if ":" in str(host) else host
        return f"{scheme}://{host or DEFAULT_HOST}:{port or DEFAULT_PORT}"
    if path := params.get("unix_socket_path"):
        return f"unix://{quote(str(path))}"
    return None


def _with_db(url: str, settings: BaseSettings) -> str:
    """The URL with the database of REDIS_DB, unless it names one itself."""
    options = _parse(url)
    db = settings.get("REDIS_DB") or settings.getdict("REDIS_PARAMS").get("db")
    if not db or "db" in options:
        return url
    if not str(db).isdecimal():
        raise ConfigError(f"REDIS_DB is {db!r}: give the number of a database, such as 0")
    before, question_mark, query = url.partition("?")
    if "path" in options:
        return f"{before}?{query}&db={db}" if question_mark else f"{before}?db={db}"
    return f"{before.rstrip('/')}/{db}{question_mark}{query}"


_embedded: dict[Path, Any] = {}


def _embedded_url() -> tuple[str, str | None]:
    # Imported here: it needs file locks that not every system has, and not everyone needs it.
    from crawlproj.server.embedded import EmbeddedRedis

    folder = _embedded_folder()
    if folder not in _embedded:
        _embedded[folder] = EmbeddedRedis.acquire(folder)
        atexit.register(_embedded[folder].release)
    return _embedded[folder].url, _embedded[folder].notice


def _embedded_folder() -> Path:
    cfg = closest_scrapy_cfg()
    return (Path(cfg).parent if cfg else Path.cwd()) / ".redis"


# How to reach it


def _parse(url: str) -> dict[str, Any]:
    """The client options that the URL stands for."""
    if url.partition("://")[0] not in SCHEMES:
        raise ConfigError(
            f"REDIS_URL {mask(url)} must begin with redis://, rediss:// (TLS) or unix://, "
            "such as redis://host:6379/0"
        )
    try:
        options = dict(parse_url(url))
        path = urlsplit(url).path.strip("/")
    except ValueError as error:
        raise ConfigError(
            f"REDIS_URL {mask(url)} cannot be read: write redis://user:password@host:6379/0, and "
            "in the password %2F for /, %3F for ?, %23 for #, %40 for @"
        ) from error
    if url.startswith("unix:") and not path:
        raise ConfigError(
            f"REDIS_URL {mask(url)} must have the whole path of a socket, such as "
            "unix:///run/redis/redis.sock"
        )
    if "path" not in options and path and not path.isdecimal():
        raise ConfigError(
            f"REDIS_URL {mask(url)} must end with the number of a database, such as /0, not /{path}"
        )
    return options


def _options(url: str, params: Mapping[str, Any]) -> dict[str, Any]:
    usable = {name: params[name] for name in params.keys() - NAMING - REPEATING}
    options = {**DEFAULTS, **usable, **_parse(url), **FORCED}
    if "path" in options:
        options.pop("socket_keepalive")
    for name in TLS_FILES:
        if options.get(name) and not Path(options[name]).is_file():
            raise ConfigError(f"{name}={options[name]} of REDIS_URL or REDIS_PARAMS: no such file")
    return options


def _cli_target(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"-h {host} -p {port}" if host else f"-s {address}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def _is_cluster(info: Mapping[str, Any]) -> bool:
    # Some managed servers report only one of the two.
    return info.get("redis_mode") == "cluster" or info.get("cluster_enabled") == 1


class Cluster(RedisCluster):
    """One that says so when another task has closed the connection that a command was about to be
    sent over, as all are closed when the masters are looked for again: redis-py fails with an
    AttributeError then."""

    async def execute_command(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super().execute_command(*args, **kwargs)
        except AttributeError as error:
            if error.obj is not None or error.name not in _OF_A_WRITER:
                raise
            raise exceptions.ConnectionError("closed before a command was sent") from error


_OF_A_WRITER = ("writelines", "drain")


async def _connect_cluster(url: str, options: Mapping[str, Any]) -> RedisCluster:
    if options.get("db") or "path" in options:
        raise ConfigError(
            f"{mask(url)} belongs to a Redis Cluster, which has only database 0 and no sockets: "
            "set REDIS_URL to redis://host:port/0 of one of its nodes"
        )
    own = {name: value for name, value in options.items() if name != "connection_class"}
    own["ssl"] = options.get("connection_class") is SSLConnection
    # While one shard is without a master, the work on the others goes on.
    own["require_full_coverage"] = False
    async with explained(options):
        client = Cluster(**own)
    async with _closed_on_failure(client):
        async with explained(options):
            await client.initialize()
        for node in client.get_primaries():
            async with explained({**options, "host": node.host, "port": node.port}):
                info = await client.info(target_nodes=node)
            check(info, node.name)
    return client


@contextlib.asynccontextmanager
async def _closed_on_failure(client: RedisClient) -> AsyncIterator[None]:
    try:
        yield
    except BaseException:
        await client.aclose()
        raise
