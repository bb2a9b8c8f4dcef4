"""What a page asks for while its scripts run: judged, and fetched by our own client, or refused.

Only what can change text and links is fetched: scripts, and what they ask for with GET. It has to
be at the host of the page, whose lease keeps other workers away, or at one of those that the user
has named; robots.txt must allow it; between two requests to a host lies the host's pause. Scripts
that many pages share are asked for once.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from scrapy import Request
from scrapy.http.request import NO_CALLBACK

from crawlproj.urls import MAX_LENGTH, UrlError, normalise

if TYPE_CHECKING:
    from playwright.async_api import Request as Asked
    from playwright.async_api import Route
    from scrapy.http import Response

WANTED = frozenset({"script", "xhr", "fetch"})
METHODS = frozenset({"GET", "HEAD"})
MOST_ERRANDS = 100
"""Of one page; what it asks for beyond is refused."""
SCRIPTS_KEPT_BYTES = 32 * 2**20
SCRIPT_IS_FRESH_S = 600.0
MOST_HOSTS = 10_000
"""Whose last request is remembered."""

_EVERYWHERE = frozenset({b"User-Agent", b"Accept-Language", b"Proxy-Authorization"})
_TO_THE_SAME_HOST = frozenset({b"Cookie", b"Authorization"})
"""Headers of the page's own request that its errands have, too."""
_SAME_WAY = frozenset({"proxy", "bindaddress", "download_timeout"})
"""What its meta says of how it is fetched, and theirs."""
_NOT_TRUE_ANY_MORE = frozenset({b"Content-Encoding", b"Content-Length", b"Transfer-Encoding"})

Fetch = Callable[[Request], Awaitable["Response"]]


class Manners(Protocol):
    """How a host is to be asked (renderer.py knows it from the running crawl)."""

    def allows(self, host: str, url: str) -> bool: ...

    def pause_s(self, host: str) -> float: ...


class Scripts:
    """Scripts that were fetched for one page and serve others, within bounds of size and age."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[float, Response]] = OrderedDict()
        self._bytes = 0

    def get(self, url: str) -> Response | None:
        until_s, response = self._kept.get(url, (0.0, None))
        return response if until_s > time.monotonic() else None

    def put(self, url: str, response: Response) -> None:
        said = b",".join(response.headers.getlist("Cache-Control")).lower()
        if response.status != 200 or b"no-store" in said or len(response.body) > SCRIPTS_KEPT_BYTES:
            return
        self._forget(url)
        self._kept[url] = time.monotonic() + SCRIPT_IS_FRESH_S, response
        self._bytes += len(response.body)
        while self._bytes > SCRIPTS_KEPT_BYTES:
            self._forget(next(iter(self._kept)))

    def _forget(self, url: str) -> None:
        if known := self._kept.pop(url, None):
            self._bytes -= len(known[1].body)


class Turns:
    """When this worker has last asked hosts for the sake of pages in the browser."""

    def __init__(self) -> None:
        self._ended_s: OrderedDict[str, float] = OrderedDict()
        self._asking: dict[str, asyncio.Lock] = {}

    def note(self, host: str) -> None:
        """A request to this host has ended just now."""
        self._ended_s[host] = time.monotonic()
        self._ended_s.move_to_end(host)
        if len(self._ended_s) > MOST_HOSTS:
            self._ended_s.popitem(last=False)

    @asynccontextmanager
    async def turn(self, host: str, pause_s: float) -> AsyncIterator[None]:
        """One request to this host at a time, each its pause after the one before."""
        async with self._asking.setdefault(host, asyncio.Lock()):
            since_s = time.monotonic() - self._ended_s.get(host, 0.0)
            await asyncio.sleep(max(0.0, pause_s - since_s))
            try:
                yield
            finally:
                self.note(host)
                if len(self._asking) > MOST_HOSTS:
                    self._asking = {
                        one: lock for one, lock in self._asking.items() if lock.locked()
                    }


class Means(NamedTuple):
    """What all pages of a worker have for their errands."""

    fetch: Fetch
    manners: Manners
    scripts: Scripts
    turns: Turns
    others: Collection[str]
    """Hosts that may be asked beside the page's own."""


class Errands:
    """Those of one page, whose response has just come."""

    def __init__(self, page: Response, means: Means) -> None:
        self._page = page
        self._host = _host(page.url)
        self._means = means
        self._count = 0
        self._under_way: set[asyncio.Task[None]] = set()
        self._is_over = False
        self.leads_to: list[str] = []
        """Where scripts have tried to take the page to."""
        self.refused = 0
        means.turns.note(self._host)

    async def answer(self, route: Route) -> None:
        """Do what is asked for, or refuse it."""
        if self._is_over:
            return
        task = asyncio.ensure_future(self._answer(route))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        await asyncio.wait([task])

    async def end(self) -> None:
        """Break off what is under way: once the page is left, its lease keeps nobody away from the
        host any more."""
        self._is_over = True
        for task in self._under_way:
            task.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)

    async def _answer(self, route: Route) -> None:
        asked = route.request
        with suppress(Exception):  # the page may be closed by now: then nobody waits for it
            if asked.is_navigation_request():
                await self._navigate(route, asked)
            elif (response := await self._response_to(asked)) is None:
                self.refused += 1
                await route.abort("blockedbyclient")
            else:
                await route.fulfill(
                    status=response.status, headers=_headers(response), body=response.body
                )

    async def _navigate(self, route: Route, asked: Asked) -> None:
        """The page itself has come already; elsewhere it does not go, nor do frames."""
        is_main = asked.frame.parent_frame is None
        if is_main and asked.url.partition("#")[0] == self._page.url and not self._count:
            self._count = 1
            kind = self._page.headers.get("Content-Type", b"text/html") or b"text/html"
            await route.fulfill(
                status=self._page.status,
                headers={"Content-Type": kind.decode("latin-1")},
                body=self._page.body,
            )
            return
        if is_main and len(self.leads_to) < MOST_ERRANDS and len(asked.url) <= MAX_LENGTH:
            self.leads_to.append(asked.url)
        await route.fulfill(status=204)  # stay where you are

    async def _response_to(self, asked: Asked) -> Response | None:
        """None if it must not be fetched, or could not be."""
        if asked.resource_type not in WANTED or asked.method not in METHODS:
            return None
        if self._count > MOST_ERRANDS:
            return None
        self._count += 1
        url = asked.url.partition("#")[0]
        host = _host(url)
        if not self._may_ask(host) or not self._means.manners.allows(host, url):
            return None
        is_script = asked.resource_type == "script"
        if is_script and (known := self._means.scripts.get(url)):
            return known
        async with self._means.turns.turn(host, self._means.manners.pause_s(host)):
            response = await self._fetched(asked, url, host)
        if is_script and response is not None:
            self._means.scripts.put(url, response)
        return response

    def _may_ask(self, host: str) -> bool:
        name = host.partition("://")[2]
        return bool(host) and (host == self._host or name in self._means.others)

    async def _fetched(self, asked: Asked, url: str, host: str) -> Response | None:
        """None if it could not be had, which is the script's to deal with."""
        headers = {"Accept": asked.headers.get("accept", "*/*"), "Referer": self._page.url}
        request = Request(url, method=asked.method, headers=headers, callback=NO_CALLBACK)
        sent = self._page.request
        if sent is not None:
            for name in _EVERYWHERE | (_TO_THE_SAME_HOST if host == self._host else frozenset()):
                if name in sent.headers:
                    request.headers[name] = sent.headers[name]
            request.meta.update((name, sent.meta[name]) for name in _SAME_WAY & sent.meta.keys())
        try:
            return await self._means.fetch(request)
        except Exception:
            return None


def _host(url: str) -> str:
    try:
        return normalise(url).host
    except UrlError:
        return ""


def _headers(response: Response) -> dict[str, str]:
    """As they came, without what is no longer true of the body."""
    return {
        name.decode("latin-1"): b", ".join(response.headers.getlist(name)).decode("latin-1")
        for name in response.headers
        if name not in _NOT_TRUE_ANY_MORE and name != b"Set-Cookie"
    }
