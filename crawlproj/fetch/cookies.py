"""Cookies that all workers of a crawl share (CRAWL_COOKIES): a login by one is a login of all.

A worker keeps jars by registrable domain and, within it, by Scrapy's `cookiejar` key. What sites
or spiders put into them goes to Redis before the links that were found with it, and every lease
tells how often there was something new. A worker that hears of it asks, once for all the leases it
has been given, for the cookies of their domains: a page of a session that goes on costs Redis
nothing. Which cookie goes where is decided by the standard library's policy, as in Scrapy.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http.cookiejar import Cookie
from typing import TYPE_CHECKING, Any

import msgpack
from scrapy import FormRequest, Request
from scrapy.http.cookies import CookieJar
from scrapy.utils.httpobj import urlparse_cached

from crawlproj.config import Config
from crawlproj.engine import cookies as scrapys
from crawlproj.frontier import cookie_store
from crawlproj.running import Cookies, running_crawl
from crawlproj.urls import registrable_domain

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from crawlproj.frontier.frontier import Frontier
    from crawlproj.frontier.messages import Lease

LARGEST_COOKIE_BYTES = 4096
"""Name and value together; larger ones are ignored, as by browsers."""

MOST_DOMAINS = 10_000
"""Domains whose cookies a worker has in hand; others it asks for again when it needs them."""

_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
"""No header can hold them."""

EXPIRY_S = 60
"""Expiry times are told in steps of so many seconds: a session that every page prolongs is not
news with every page."""

_ASKS_FOR_SESSION = "%s asks for a session (FormRequest or cookies=), "
NO_COOKIES = _ASKS_FOR_SESSION + (
    "but cookies are off: CRAWL_COOKIES=shared keeps them for all workers (docs/cookies.md); this "
    "is said once"
)
OWN_COOKIES = _ASKS_FOR_SESSION + (
    "and each worker keeps cookies for itself: where there is more than one, set "
    "CRAWL_COOKIES=shared (docs/cookies.md); this is said once"
)
NOT_SHARED = (
    "CRAWL_COOKIES=shared: nothing is shared, for DOWNLOADER_MIDDLEWARES lacks "
    "crawlproj.fetch.cookies.CookiesMiddleware in place of Scrapy's (docs/cookies.md)"
)


def cookie_advice(settings: BaseSettings) -> str:
    """What to tell a spider that wants a session, where cookies are not shared."""
    return OWN_COOKIES if settings.getbool("COOKIES_ENABLED") else NO_COOKIES


def wants_session(request: Request) -> bool:
    """Whether a request makes no sense without cookies."""
    return bool(request.cookies) or isinstance(request, FormRequest)


class Domain:
    """The cookies of one registrable domain, and which of them Redis has."""

    def __init__(self) -> None:
        self._jars: dict[str, CookieJar] = {}
        self._shared: dict[str, bytes] = {}
        self.changes_known = -1
        """Changes that had been told of when its cookies were asked for."""

    def jar(self, key: Any) -> CookieJar:
        """The jar of a `cookiejar` key, None for the usual one."""
        return self._jars.setdefault("" if key is None else repr(key), CookieJar())

    def changes(self) -> dict[str, bytes]:
        """What Redis does not know yet, by id; b"" for a cookie that is gone."""
        now = self._packed()
        gone = {id_: b"" for id_ in self._shared if id_ not in now}
        return gone | {id_: one for id_, one in now.items() if self._shared.get(id_) != one}

    def mark_shared(self, changes: dict[str, bytes]) -> None:
        """Redis knows these."""
        self._shared.update(changes)
        self._shared = {id_: one for id_, one in self._shared.items() if one}

    def update(self, shared: dict[str, bytes]) -> None:
        """Take over what Redis has, but for what has changed here in the meantime."""
        ours, unread = self.changes(), set()
        for id_ in {*shared, *self._shared} - ours.keys():
            is_new = shared.get(id_) != self._shared.get(id_)
            if is_new and not self._put(id_, shared.get(id_, b"")):
                unread.add(id_)
        # What could not be read is not missed here, or others would be told that it is gone.
        self._shared = {id_: one for id_, one in shared.items() if id_ not in unread}

    def _packed(self) -> dict[str, bytes]:
        return {
            "\0".join((key, cookie.domain, cookie.path, cookie.name)): _pack(cookie)
            for key, jar in self._jars.items()
            for cookie in jar
            if not cookie.is_expired()
        }

    def _put(self, id_: str, packed: bytes) -> bool:
        """Take over a cookie; False for what cannot be read, for Redis may hold anything."""
        with suppress(ValueError, TypeError):
            key, domain, path, name = id_.split("\0")
            jar = self._jars.setdefault(key, CookieJar())
            with suppress(KeyError):
                jar.clear(domain, path, name)
            if packed:
                jar.set_cookie(_unpack(domain, path, name, packed))
            return True
        return False


class SharedCookies:
    """The cookies of this worker, and their exchange with the others."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._domains: OrderedDict[str, Domain] = OrderedDict()
        self._changed: set[str] = set()
        # What was asked for before a change was shared must not be heard after it.
        self._exchanging = asyncio.Lock()

    def jar(self, request: Request) -> CookieJar:
        """The jar that a request takes from and gives to."""
        return self._domain(_domain_of(request)).jar(request.meta.get("cookiejar"))

    def has_changed(self, request: Request) -> None:
        """Something was put into the jar of a request."""
        self._changed.add(_domain_of(request))

    async def share(self) -> None:
        """Have all workers know what has changed here; done again if Redis was away meanwhile."""
        if not self._changed:
            return
        async with self._exchanging:
            changed, self._changed = self._changed, set()
            found = {name: self._domain(name).changes() for name in changed}
            changes = {name: cookies for name, cookies in found.items() if cookies}
            try:
                if changes:
                    await cookie_store.share(self._frontier.shards, changes)
            except BaseException:
                self._changed |= changed
                raise
            for name, cookies in changes.items():
                self._domain(name).mark_shared(cookies)

    async def learn(self, leases: Iterable[Lease]) -> None:
        """Know the cookies of what was leased, if any were told of that are not known yet."""
        changes = cookie_store.changes_told(self._frontier.shards)
        if not changes:
            return
        names = dict.fromkeys(registrable_domain(lease.host) for lease in leases)
        stale = [name for name in names if self._domain(name).changes_known != changes]
        if not stale:
            return
        async with self._exchanging:
            found = await cookie_store.cookies_of(self._frontier.shards, stale)
            for name, cookies in zip(stale, found, strict=True):
                domain = self._domain(name)
                domain.update(cookies)
                domain.changes_known = changes

    def _domain(self, name: str) -> Domain:
        domain = self._domains.setdefault(name, Domain())
        self._domains.move_to_end(name)
        if len(self._domains) > MOST_DOMAINS:
            oldest = next(iter(self._domains))
            if oldest not in self._changed:
                del self._domains[oldest]
        return domain


class OfflineCookies(scrapys.CookiesMiddleware):
    """Scrapy's, with our list of public suffixes: its own is asked for on the network when the
    first cookie comes, and where there is none, a hundred lines of traceback say so."""

    def acceptable(self, cookies: Iterable[Cookie], request: Request) -> Iterable[Cookie]:
        return _acceptable(cookies, request)


class CookiesMiddleware(OfflineCookies):
    """`DOWNLOADER_MIDDLEWARES`, in place of Scrapy's; where cookies are not shared, like it."""

    _has_own = False
    """Whether this worker keeps cookies for itself, where the crawl does not share them."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Any:
        if not Config.from_settings(crawler.settings).cookies:
            return OfflineCookies.from_crawler(crawler)
        self = cls(crawler.settings.getbool("COOKIES_DEBUG"))
        self.crawler = crawler
        self._has_own = crawler.settings.getbool("COOKIES_ENABLED")
        return self

    def process_request(  # type: ignore[override]  # without an argument that Scrapy has given up
        self, request: Request
    ) -> None:
        shared = self._shared(request)
        if shared is None:
            if self._has_own:
                super().process_request(request)
            return
        jar = shared.jar(request)
        if request.cookies:
            self.take_from_request(jar, request)
            shared.has_changed(request)
        request.headers.pop("Cookie", None)
        jar.add_cookie_header(request)
        self.log_sent(request)

    def process_response(  # type: ignore[override]
        self, request: Request, response: Response
    ) -> Response:
        shared = self._shared(request)
        if shared is None:
            if self._has_own:
                super().process_response(request, response)
        elif b"Set-Cookie" in response.headers:
            jar = shared.jar(request)
            self.take(jar.make_cookies(response, request), jar, request)
            shared.has_changed(request)
            self.log_received(response)
        return response

    def _shared(self, request: Request) -> Cookies | None:
        if request.meta.get("dont_merge_cookies"):
            return None
        crawl = running_crawl(self.crawler)
        return crawl.cookies if crawl is not None else None


def _acceptable(cookies: Iterable[Cookie], request: Request) -> Iterator[Cookie]:
    """Those of a size to keep, and for the registrable domain that gives them: not for a public
    suffix, by which sites of different people would share them."""
    name = _domain_of(request)
    for cookie in cookies:
        # The standard library's name for the domain of a host without a dot.
        belongs_to = cookie.domain.removeprefix(".").removesuffix("" if "." in name else ".local")
        size = len(cookie.name) + len(cookie.value or "")
        if registrable_domain(belongs_to) == name and size <= LARGEST_COOKIE_BYTES:
            yield cookie


def _domain_of(request: Request) -> str:
    return registrable_domain(urlparse_cached(request).netloc.rpartition("@")[2].lower())


def _pack(cookie: Cookie) -> bytes:
    expires = cookie.expires and -(-int(cookie.expires) // EXPIRY_S) * EXPIRY_S
    flags = cookie.domain_specified, cookie.domain_initial_dot, cookie.path_specified
    packed: bytes = msgpack.packb([cookie.value, cookie.secure, expires, *map(bool, flags)])
    return packed


def _unpack(domain: str, path: str, name: str, packed: bytes) -> Cookie:
    value, secure, expires, *flags = msgpack.unpackb(packed)
    is_text = isinstance(value, str | None) and isinstance(expires, int | None)
    is_text = is_text and not _CONTROLS.search(f"{domain}{path}{name}{value}")
    if not is_text or len(flags) != 3 or len(packed) > 2 * LARGEST_COOKIE_BYTES:
        raise ValueError("no cookie of ours")
    domain_specified, initial_dot, path_specified = map(bool, flags)
    return Cookie(
        version=0,
        name=name,
        value=value,
        port=None,
        port_specified=False,
        domain=domain,
        domain_specified=domain_specified,
        domain_initial_dot=initial_dot,
        path=path,
        path_specified=path_specified,
        secure=bool(secure),
        expires=expires,
        discard=expires is None,
        comment=None,
        comment_url=None,
        rest={},
    )
