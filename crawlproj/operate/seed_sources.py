"""Seeds from a search engine, a sitemap or a feed.

Each source gives its URLs in batches, one for each document that was read, so that no more than
one document is in memory. What of it cannot be had is noted and left out; a source that names no
page at all raises SourceError.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from crawlproj.discover import search_engines, sitemaps, web_feeds
from crawlproj.discover.search_engines import Answer, Ask, Engine, Results
from crawlproj.discover.sitemap_reading import MOST_STEPS, in_order
from crawlproj.discover.sitemaps import Entry, Sitemap
from crawlproj.errors import ConfigError, CrawlError
from crawlproj.fetch.documents import Document, Documents, FetchError
from crawlproj.plural import counted
from crawlproj.urls import Url, UrlError, absolute, normalise

MOST_SEEDS = 1_000_000
"""Seeds from one source."""
MOST_PROBLEMS = 100
"""Parts that could not be had of which each is told."""
MOST_SITEMAPS = 10_000
"""Sitemaps that are read on behalf of one."""


class SourceError(CrawlError):
    """A source that gives no seeds. `str()` says why."""


@dataclass
class Source:
    """Reads one source."""

    documents: Documents
    most: int = MOST_SEEDS
    _problems: list[str] = field(default_factory=list)
    _unsaid: int = 0
    _found: dict[str, None] = field(default_factory=dict)

    @property
    def left_out(self) -> list[str]:
        """What could not be had, and why: as much of it as anybody reads."""
        return [*self._problems, *([f"{self._unsaid:,} more"] if self._unsaid else [])]

    def _leave_out(self, problem: str) -> None:
        if len(self._problems) < MOST_PROBLEMS:
            self._problems.append(problem)
        else:
            self._unsaid += 1

    async def search(self, engine: Engine, words: str) -> AsyncIterator[list[str]]:
        """The organic results of a search, in order: one request a page of them."""
        first = engine.ask(words)
        self.documents.name(_named(first.url))
        following: Ask | None = first
        while following is not None and len(self._found) < self.most:
            try:
                results = await self._ask(engine, following)
            except CrawlError as error:
                if not self._found:
                    raise
                self._leave_out(f"further results: {error}")
                return
            new = self._new(results.urls)
            yield new
            # A page that only repeats the one before could lead to the next without end.
            following = results.following if new else None
        if not self._found:
            raise SourceError(f"no results for {words!r}")

    async def _ask(self, engine: Engine, asked: Ask) -> Results:
        most_bytes = search_engines.MOST_BYTES
        url = _named(asked.url)
        answer = await self.documents.get(url, form=asked.form, most_bytes=most_bytes)
        return engine.read(asked, Answer(*answer))

    async def sitemap(self, url: str) -> AsyncIterator[list[str]]:
        """The pages of a sitemap, and of those that it names if it is an index."""
        first = _named(url)
        self.documents.name(first)
        waiting, known = deque([(first, 0)]), {first}
        while waiting and len(self._found) < self.most:
            one, steps = waiting.popleft()
            found = await self._read(one, first, _read_sitemap)
            if found is None:
                continue
            if not found.is_index:
                yield self._new(list(in_order(found.entries)))
            elif steps >= MOST_STEPS:
                self._leave_out(f"{one}: an index {counted(steps, 'step')} from the first")
            else:
                inner = self._inner(one, found.urls, known)
                waiting.extend((each, steps + 1) for each in inner)
        self._refuse_nothing(url)

    async def feed(self, url: str) -> AsyncIterator[list[str]]:
        """The pages that the entries of a feed lead to."""
        first = _named(url)
        self.documents.name(first)
        if found := await self._read(first, first, _read_feed):
            yield self._new(found.urls)
        self._refuse_nothing(url)

    def _inner(self, index: Url, urls: list[str], known: set[Url]) -> list[Url]:
        """The sitemaps of an index that have not been read yet."""
        inner = []
        for text in urls:
            try:
                url = normalise(text, index, drop=None)
            except UrlError as error:
                self._leave_out(f"{text[:200]}: {error}")
                continue
            if url in known:
                continue
            if len(known) >= MOST_SITEMAPS:
                self._leave_out(f"{index}: sitemaps beyond {MOST_SITEMAPS:,}")
                break
            known.add(url)
            inner.append(url)
        return inner

    async def _read(
        self, url: Url, first: Url, read: Callable[[Document], Awaitable[Sitemap]]
    ) -> Sitemap | None:
        """What a document says. The one that the user has named has to be there."""
        try:
            document = await self.documents.get(url, most_bytes=sitemaps.MOST_BYTES)
            if document.status != 200:
                raise FetchError(f"{url}: status {document.status}")
            found = await read(document)
            if found.overflow:
                self._leave_out(f"{url}: all beyond the first {sitemaps.MOST_URLS:,} URLs")
            return found
        except sitemaps.TooLarge as error:
            problem = f"{url}: {error}"
        except CrawlError as error:
            problem = str(error)
        if url == first:
            raise SourceError(problem)
        self._leave_out(problem)
        return None

    def _new(self, urls: list[str]) -> list[str]:
        """Those that have not been given yet, as many as are wanted."""
        new = []
        for url in urls:
            if url not in self._found and len(self._found) < self.most:
                self._found[url] = None
                new.append(url)
        return new

    def _refuse_nothing(self, url: str) -> None:
        if not self._found:
            raise SourceError("; ".join([f"{url}: names no page", *self.left_out]))


async def _read_sitemap(document: Document) -> Sitemap:
    found = await asyncio.to_thread(web_feeds.read_any, document.body, document.url)
    if not found.urls and not found.is_index:
        raise SourceError(
            f"{document.url}: names no page: no sitemap, neither in XML nor a list of URLs, or an "
            "empty one"
        )
    return found if found.is_index else found._replace(entries=_absolute(found, document.url))


def _absolute(found: Sitemap, base: str) -> list[Entry]:
    return [
        entry._replace(
            url=absolute(entry.url, base),
            alternates=tuple(absolute(one, base) for one in entry.alternates),
        )
        for entry in found.entries
    ]


async def _read_feed(document: Document) -> Sitemap:
    try:
        return await asyncio.to_thread(web_feeds.read, document.body, document.url)
    except web_feeds.NoFeed as error:
        raise SourceError(f"{document.url}: no feed: {error}") from None


def _named(url: str) -> Url:
    try:
        return normalise(url, drop=None)
    except UrlError as error:
        raise ConfigError(f"{url[:200]}: {error}") from None
