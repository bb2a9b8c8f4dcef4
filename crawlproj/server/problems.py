"""What is wrong with a Redis that cannot be used, as a sentence that says what to do about it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from redis import exceptions
from redis.asyncio.connection import SSLConnection

from crawlproj.errors import ConfigError, CrawlError, RedisDenied, RedisUnavailable

DEFAULT_HOST, DEFAULT_PORT = "localhost", 6379
WITHOUT_ONE = "with FRONTIER_EMBEDDED=True and no REDIS_URL a private one is started for you"
TLS_PROBE_S = 1.0
WRONG_NAME = (62, 64)
"""OpenSSL's codes for a certificate of another host, or of another address."""


def address_of(options: Mapping[str, Any]) -> str:
    """Where the options lead, for people."""
    if "path" in options:
        return str(options["path"])
    return f"{options.get('host', DEFAULT_HOST)}:{options.get('port', DEFAULT_PORT)}"


@contextlib.asynccontextmanager
async def explained(options: Mapping[str, Any]) -> AsyncIterator[None]:
    """Turn what redis-py raises inside into a sentence for the user."""
    try:
        yield
    except TypeError as error:
        raise ConfigError(
            f"An option in REDIS_PARAMS or in the query of REDIS_URL cannot be used: {error}"
        ) from error
    except (exceptions.RedisError, exceptions.RedisClusterException) as error:
        raise await _explain(error, options) from error


async def _explain(error: Exception, options: Mapping[str, Any]) -> CrawlError:
    address = address_of(options)
    match error:
        case exceptions.AuthenticationError():
            return _explain_login(error, options)
        case exceptions.NoPermissionError():
            user = options.get("username") or "default"
            return RedisDenied(
                f"The Redis at {address} lets user {user} in, but: {error}. Give it the rights: "
                f"redis-cli acl setuser {user} '~*' '&*' +@all -@dangerous +info"
            )
        case exceptions.InvalidResponse():
            return RedisUnavailable(
                f"What answers at {address} is not a Redis: correct the address in REDIS_URL"
            )
        case exceptions.ResponseError() if re.search("DB index|SELECT", str(error)):
            return ConfigError(
                f"The Redis at {address} has no database {options.get('db')}: end REDIS_URL with "
                "a lower number; a Redis Cluster has only /0"
            )
        case exceptions.ResponseError():
            return RedisUnavailable(f"The Redis at {address} refuses to work: {error}")
    return await _explain_silence(error, options)


def _explain_login(error: Exception, options: Mapping[str, Any]) -> RedisDenied:
    address = address_of(options)
    if "called without any password" in str(error):
        return RedisDenied(
            f"The Redis at {address} has no password: take it out of REDIS_URL or REDIS_PARAMS"
        )
    if not options.get("password"):
        return RedisDenied(
            f"The Redis at {address} needs a password: REDIS_URL=redis://:PASSWORD@{address}/0"
        )
    user = options.get("username") or "default"
    return RedisDenied(
        f"The Redis at {address} does not accept the password of user {user}: correct it in "
        "REDIS_URL or REDIS_PARAMS"
    )


async def _explain_silence(error: Exception, options: Mapping[str, Any]) -> CrawlError:
    address = address_of(options)
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _explain_certificate(cause, address)
    has_tls = options.get("connection_class") is SSLConnection
    if "path" not in options and await _answers(options, tls=not has_tls):
        speaks, scheme = ("does not speak", "redis") if has_tls else ("speaks only", "rediss")
        return RedisDenied(f"The Redis at {address} {speaks} TLS: begin REDIS_URL with {scheme}://")
    numbers = [cause.errno for cause in causes if isinstance(cause, OSError) and cause.errno]
    reason = os.strerror(numbers[-1]) if numbers and numbers[-1] > 0 else str(error)
    return RedisUnavailable(
        f"No Redis answers at {address} ({reason}): start it, or name another in "
        f"REDIS_URL; {WITHOUT_ONE}"
    )


def _explain_certificate(error: ssl.SSLCertVerificationError, address: str) -> RedisDenied:
    if error.verify_code in WRONG_NAME:
        return RedisDenied(
            f"The certificate of the Redis at {address} was not issued for that name: write in "
            "REDIS_URL the name that it was issued for, or see whether it is the right server"
        )
    return RedisDenied(
        f"The certificate of the Redis at {address} is not trusted "
        f"({error.verify_message}): add ?ssl_ca_certs=/path/to/ca.pem to REDIS_URL"
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error:
        yield error
        error = error.__cause__ or error.__context__


async def _answers(options: Mapping[str, Any], *, tls: bool) -> bool:
    """Whether a Redis at that address understands us with, or without, TLS."""
    context = ssl.create_default_context() if tls else None
    if context:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    host, port = options.get("host", DEFAULT_HOST), options.get("port", DEFAULT_PORT)
    try:
        async with asyncio.timeout(TLS_PROBE_S):
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
            try:
                writer.write(b"PING\r\n")
                return await reader.read(1) in (b"+", b"-")
            finally:
                writer.close()
                await writer.wait_closed()
    except OSError:  # includes TimeoutError and the errors of ssl
        return False
