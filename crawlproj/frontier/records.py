"""Request ⇄ what the frontier stores. Never pickle: what is in Redis is hostile input.

An entry is one byte that counts attempts, one byte that names the format, and a msgpack list
`[path_or_url, depth, referer, rest]` whose empty end is left out. It is the path where the host is
known from the queue it stands in, else the whole URL. A link has that and its depth; only a request
that says more than GET carries the rest. A page that is to be revisited has two values more: its
priority, and what its last visit has left (visits.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack
from scrapy import Request

from crawlproj.config import Config
from crawlproj.errors import CrawlError
from crawlproj.frontier import seen_keys
from crawlproj.frontier.levels import priority_of
from crawlproj.frontier.meta_keys import (
    FOUND,
    FROM_ENVIRONMENT,
    LEASE,
    PASSED,
    PROXY,
    REDIRECT_URLS,
    REFERER,
    REQUEST,
    RETRY_TIMES,
    SENT_LOGIN,
    VISIT,
)
from crawlproj.frontier.proxies import LOGIN_HEADER, NO_PROXIES, Proxies
from crawlproj.urls import DROPPED_PARAMS, is_safe, normalise

if TYPE_CHECKING:
    from scrapy import Spider

FORMAT = 1

_LED_TO = (PASSED, REDIRECT_URLS, FOUND)
"""Keys of `request.meta` of a request to where the web has led."""

_APART = (LEASE, REQUEST, VISIT, "depth", REFERER, PROXY, SENT_LOGIN, FROM_ENVIRONMENT)
"""Keys of `request.meta` that are not stored with the rest of it."""

_VERBATIM = "verbatim_url"
"""Scrapy's key of `request.meta`: it makes the URL safe to send where this is not set."""

NO_LIMITS: Mapping[str, float] = {}

_PLAIN = (type(None), bool, int, float, str, bytes)
_COLLECTIONS: dict[Any, type] = {b"\0tuple": tuple, b"\0set": set, b"\0frozenset": frozenset}
_TAGS = {kind: tag for tag, kind in _COLLECTIONS.items()}
"""What msgpack has no word for is a map of a tag and a list: an extension would be neater, but
Redis's scripts cannot read it. What is derived from these, a named tuple say, becomes a list."""

_DEFAULTS = {"method": "GET", "encoding": "utf-8", "body": b"", "flags": [], "cookies": {}}
_KEPT = ("callback", "errback", "method", "headers", "body", "cookies", "encoding", "flags")


class RecordError(CrawlError):
    """A request that cannot be stored, or an entry that cannot be read."""


class RequestKey(NamedTuple):
    """What tells a request from others: the host whose queue it joins, and its key in the seen
    filter."""

    host: str
    key: str


def encode_link(path: str, depth: int, referer: str = "", redirects: Sequence[str] = ()) -> bytes:
    """The entry of a plain link, with the URLs that redirected to it, if any did."""
    if redirects:
        return encode_rest(path, {"meta": {PASSED: list(redirects)}}, depth, referer)
    return _entry([path, depth, referer] if referer else [path, depth])


def encode_rest(path: str, rest: dict[str, Any], depth: int = 0, referer: str = "") -> bytes:
    """The entry of a link with something to remember."""
    return _entry([path, depth, referer, rest])


def encode_request(
    request: Request,
    host: str,
    spider: Spider,
    max_bytes: int = Config.max_record_bytes,
    proxies: Proxies = NO_PROXIES,
) -> bytes:
    """The entry of any request; raises RecordError if it holds what cannot be stored."""
    path = request.url.removeprefix(host)
    path_or_url = path if path.startswith("/") else request.url
    depth, referer = request.meta.get("depth") or 0, request.meta.get(REFERER) or ""
    if type(depth) is not int or type(referer) is not str:
        raise RecordError(f"{request}: depth in its meta must be a number, and referer text")
    try:
        entry = _entry(_trimmed([path_or_url, depth, referer, _rest(request, spider, proxies)]))
    except RecursionError:
        raise RecordError(f"{request}: its meta or cb_kwargs contain themselves") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise RecordError(f"{request}: cannot be stored for another worker: {error}") from None
    if len(entry) > max_bytes:
        raise RecordError(
            f"{request}: takes {len(entry)} bytes to store, more than FRONTIER_MAX_RECORD_BYTES="
            f"{max_bytes}; keep large data out of meta and body"
        )
    return entry


def encode_changed(
    request: Request,
    host: str,
    spider: Spider,
    own: bytes,
    *,
    max_bytes: int,
    proxies: Proxies,
) -> bytes:
    """The entry of a request that a middleware has made of the one stored as `own`. What cannot be
    stored of its meta the middleware has put there, and puts there again: it stays as it was."""
    before = _fields(own, host)[3].get("meta", {})
    now = {name: value for name, value in request.meta.items() if _is_storable(value)}
    changed = request.replace(meta={**before, **now})
    return encode_request(changed, host, spider, max_bytes, proxies)


def encode_visited(entry: bytes, priority: int, visit: str) -> bytes:
    """The entry of a page that has been fetched, for when it is revisited: untried; raises
    ValueError if it cannot be read."""
    path_or_url, depth, *others = msgpack.unpackb(entry[2:], strict_map_key=False)
    referer, rest = others[0] if others else "", others[1] if len(others) > 1 else {}
    return _entry([path_or_url, depth, referer, rest, priority, visit])


def last_visit(entry: bytes) -> tuple[int, str] | None:
    """The priority of a page that is revisited, and what its last visit has left; None if it is
    none, or cannot be read."""
    try:
        found: tuple[int, str] | None = _fields(entry, "")[3].get("meta", {}).get(VISIT)
    except Exception:
        return None
    return found


def _rest(request: Request, spider: Spider, proxies: Proxies) -> dict[str, Any]:
    """All that a request says beyond its URL, depth and referer."""
    try:
        known: dict[str, Any] = request.to_dict(spider=spider)
    except ValueError:
        raise RecordError(
            f"{request}: its callback and errback must be methods of the spider, by which the "
            "worker that fetches it can find them again"
        ) from None
    known["headers"].pop(LOGIN_HEADER, None)
    rest = {
        name: known[name] for name in _KEPT if known[name] and known[name] != _DEFAULTS.get(name)
    }
    meta = {name: value for name, value in request.meta.items() if name not in _APART}
    if PROXY in request.meta:
        meta |= _proxy(request, proxies)
    for name, value in (("meta", meta), ("cb_kwargs", request.cb_kwargs)):
        if value:
            rest[name] = _storable(value, f"{name} of {request}")
    if request.dont_filter:
        rest["dont_filter"] = True
    return rest


def _proxy(request: Request, proxies: Proxies) -> dict[str, str]:
    """The proxy of a request as it is stored; nothing if a middleware has chosen it."""
    if address := proxies.address(request.meta[PROXY]):
        return {PROXY: address}
    if LEASE in request.meta:  # it has been through the middlewares, and will be again
        return {}
    raise RecordError(
        f"{request}: its proxy is none of CRAWL_PROXIES, and no other comes from a stored request: "
        "name it there, or let a downloader middleware choose"
    )


def decode(
    host: str,
    level: float,
    entry: bytes,
    spider: Spider,
    proxies: Proxies = NO_PROXIES,
    *,
    limits: Mapping[str, float] = NO_LIMITS,
) -> Request:
    """The request that an entry stands for; raises RecordError if it cannot be read. Its meta may
    lower the worker's own limits, and not raise them."""
    try:
        if entry[1] != FORMAT:
            raise RecordError(f"a record of format {entry[1]}: this version reads {FORMAT}")
        url, depth, referer, rest = _fields(entry, host)
        # Whoever fetches it keeps the pace and the rules of the host in whose queue it stands.
        if not url.startswith(f"{host}/") and normalise(url).host != host:
            raise RecordError(f"a record of another host in the queue of {host}")
        if not url.startswith(("http://", "https://")):
            raise RecordError(f"a record of something else than the web: {url[:200]!r}")
        is_plain = not rest
        priority, meta = priority_of(level), {**rest.pop("meta", {}), "depth": depth}
        if not is_plain and VISIT in meta:
            priority = meta[VISIT][0]
        if referer:
            meta[REFERER] = referer
        for name in ("callback", "errback"):
            if name in rest:
                rest[name] = _method(spider, rest[name])
        if is_plain and is_safe(url):
            return _unchecked(url, meta, priority)
        request = Request(url, meta=meta, priority=priority, **rest)
        if not is_plain:
            request.meta.pop(REQUEST, None)
            if not entry[0]:  # a dead letter that is queued again has all its attempts before it
                request.meta.pop(RETRY_TIMES, None)
            _choose_proxy(request, proxies)
            _keep_within(limits, request.meta)
        return request
    except RecordError:
        raise
    except Exception as error:
        raise RecordError(
            f"a record that cannot be read: {type(error).__name__}: {error}"
        ) from None


def _unchecked(url: str, meta: dict[str, Any], priority: int) -> Request:
    """A request for a URL that Scrapy would find safe as it is, without having it look."""
    request = Request(url, meta={**meta, _VERBATIM: True}, priority=priority)
    del request.meta[_VERBATIM]
    return request


def _choose_proxy(request: Request, proxies: Proxies) -> None:
    """Leave of what a stored request says about proxies only the choice of one of ours."""
    request.headers.pop(LOGIN_HEADER, None)
    request.meta.pop(SENT_LOGIN, None)
    from_environment = request.meta.pop(FROM_ENVIRONMENT, False)
    stored = request.meta.pop(PROXY, None)
    if proxy := proxies.named(stored):
        request.meta[PROXY] = proxy
    elif stored is not None and not from_environment:
        raise RecordError(f"a record with a proxy that is none of CRAWL_PROXIES: {request}")


def _keep_within(limits: Mapping[str, float], meta: dict[str, Any]) -> None:
    """Forget what a stored request says beyond a limit; 0 would mean that there is none."""
    for name, most in limits.items():
        if name in meta and not (type(meta[name]) in (int, float) and 0 < meta[name] <= most):
            del meta[name]


class EntrySummary(NamedTuple):
    """What reports say about an entry, without building its request."""

    url: str
    depth: int
    referer: str
    attempts: int
    redirected: bool = False


def summarise(host: str, entry: bytes) -> EntrySummary:
    """The URL, depth, referer and attempts of an entry; of an unreadable one, its host."""
    try:
        url, depth, referer, rest = _fields(entry, host)
        meta = rest.get("meta", {})
        redirected = any(map(meta.get, _LED_TO))
        return EntrySummary(url, depth, referer or _sent_referer(rest), entry[0], redirected)
    except Exception:
        return EntrySummary(host, 0, "", entry[0] if entry else 0)


def meta_of(host: str, entry: bytes) -> dict[str, Any]:
    """The meta that an entry carries, without building its request; of an unreadable one, none."""
    try:
        meta = _fields(entry, host)[3].get("meta", {})
    except Exception:
        return {}
    return meta if isinstance(meta, dict) else {}


def _sent_referer(rest: dict[str, Any]) -> str:
    """What Scrapy's middleware has put among the headers of a spider's own request."""
    values = rest.get("headers", {}).get(b"Referer") or [b""]
    return bytes(values[0]).decode("latin-1")


def key_of_url(url: str, drop: re.Pattern[str] = DROPPED_PARAMS) -> RequestKey:
    """The queue and the key of a GET; raises UrlError if the URL cannot be crawled."""
    normal = normalise(url, drop=drop)
    return RequestKey(normal.host, seen_keys.page(normal))


def _entry(record: list[Any]) -> bytes:
    return bytes((0, FORMAT)) + bytes(msgpack.packb(record))


def _trimmed(record: list[Any]) -> list[Any]:
    while len(record) > 2 and not record[-1]:
        record.pop()
    return record


def _fields(entry: bytes, host: str) -> tuple[str, int, str, dict[str, Any]]:
    record = msgpack.unpackb(entry[2:], strict_map_key=False, object_hook=_restored)
    url, depth, *others = record  # which are left out where there is nothing to say
    referer = others[0] if others else ""
    rest = others[1] if len(others) > 1 else {}
    found = (type(url), type(depth), type(referer), type(rest))
    if found != (str, int, str, dict):
        raise RecordError("a record whose fields are not what they should be")
    if len(others) > 2:
        rest = {**rest, "meta": {**rest.get("meta", {}), VISIT: _visit(*others[2:])}}
    return (host + url if url.startswith("/") else url), depth, referer, rest


def _visit(priority: Any, visit: Any) -> tuple[int, str]:
    if type(priority) is not int or type(visit) is not str:
        raise RecordError("a record of a visit that is none")
    return priority, visit


def _storable(value: Any, where: str) -> Any:
    if isinstance(value, dict):
        return {_key(k, where): _storable(v, f"{k!r} in {where}") for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = [_storable(item, where) for item in value]
        tag = _TAGS.get(type(value))
        return {tag: items} if tag else items
    return _plain(value, where)


def _restored(found: dict[Any, Any]) -> Any:
    """A map, or the collection that stands in it under a tag."""
    if len(found) == 1:
        [(tag, items)] = found.items()
        if kind := _COLLECTIONS.get(tag):
            return kind(items)
    return found


def _key(value: Any, where: str) -> Any:
    if isinstance(value, bytes) and value in _COLLECTIONS:
        raise RecordError(f"{where}: {value!r} cannot be a key")
    return _plain(value, where)


def _is_storable(value: Any) -> bool:
    try:
        _storable(value, "")
    except (RecordError, RecursionError):
        return False
    return True


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, _PLAIN):
        return value
    raise RecordError(
        f"{where}: a {type(value).__name__} cannot be stored for another worker; use text, "
        "numbers, lists, tuples, sets and dicts"
    )


def _method(spider: Spider, name: Any) -> Any:
    if not isinstance(name, str) or name.startswith("__"):
        raise RecordError(f"a record that names no method: {name!r}")
    method = getattr(spider, name, None)
    if not callable(method):
        raise RecordError(f"a record for a method that {spider.name!r} does not have: {name!r}")
    return method
