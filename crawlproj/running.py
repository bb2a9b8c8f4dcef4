"""The crawl that a worker is at work on, as spiders, middlewares, extensions and handlers see it.

They ask for it with `running_crawl(crawler)`; whoever joins the crawl has announced it here. Nobody
reaches through Scrapy's engine into the scheduler. Stands right above `frontier/`, whose types it
names; what rooms above give is named by what can be asked of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from scrapy.utils.misc import load_object

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response, TextResponse
    from scrapy.http.cookies import CookieJar
    from scrapy.settings import BaseSettings

    from crawlproj.config import Config
    from crawlproj.frontier.frontier import Frontier
    from crawlproj.frontier.messages import Lease, Settlement
    from crawlproj.frontier.outcomes import Attempt, Outcome
    from crawlproj.items import PageItem
    from crawlproj.urls import Url

_JOINED = "crawlproj_running_crawl"
_AWAITED = "crawlproj_when_joined"
"""Attributes of Scrapy's crawler: its life is that of what they hold."""


class ReadPage(NamedTuple):
    """What a spider has read of a page: its links as they are written, the URL that they are to be
    understood from, and what their queries are escaped in."""

    url: Url
    body: bytes
    hrefs: Sequence[str]
    base: Url
    depth: int
    encoding: str = "utf-8"
    is_revisit: bool = False
    priority: float = 0


class Links(Protocol):
    """What a spider does with the links of its pages (discover/discovery.py)."""

    @property
    def wants_media(self) -> bool: ...

    def normal(self, url: str, base: Url | None = None, *, encoding: str = "utf-8") -> Url: ...

    def seed_priority(self, url: Url) -> int: ...

    def read(self, page: ReadPage) -> int: ...

    def redirect(
        self, url: Url, depth: int, referer: str, passed: list[str], priority: float = 0
    ) -> str: ...


class RankedLinks(Links, Protocol):
    """Links that are ranked by how many pages their hosts have had."""

    def count_page(self, host: str, pages: int) -> None: ...


class CloserReading(Protocol):
    """How pages are read of which more is wanted than the links to follow
    (discover/closer_reading.py)."""

    def read(self, body: bytes, charset: str | None) -> Any: ...

    def note(
        self,
        url: Url,
        read: Any,
        depth: int,
        lease: int,
        *,
        priority: float,
        is_nofollow: bool,
    ) -> None: ...

    def note_redirect(self, url: str, target: str, lease: int) -> None: ...

    def note_again(self, page: PageItem, found: Iterable[Mapping[str, str]]) -> None: ...

    def outcome_of_check(
        self, response: Response, attempt: Attempt, passed: list[str]
    ) -> Outcome: ...

    def check_redirect(self, attempt: Attempt, target: Url, passed: list[str]) -> None: ...


class PageToRead(NamedTuple):
    """A page whose attributes are wanted."""

    url: str
    body: bytes
    charset: str | None
    """What the HTTP header says."""
    language: str
    """As declared."""
    canonical: str
    fetched_at: str
    lease: int = 0


class PageAttributes(Protocol):
    """What pages say of themselves (output/attributes/table.py)."""

    def add(self, page: PageToRead) -> None: ...


class PageExtraction(Protocol):
    """What users ask of pages by selectors (output/extract/table.py)."""

    def add(self, response: TextResponse, page: PageItem) -> None: ...


class Refresh(Protocol):
    """How pages are revisited (discover/refreshing.py)."""

    def prepare(self, request: Request) -> None: ...

    def note(self, attempt: Attempt, response: Response, digest: bytes) -> str: ...

    def settle(self, attempt: Attempt, settlement: Settlement) -> Settlement: ...

    async def hint(self, modified_s: Mapping[Url, int]) -> None: ...

    async def wake(self, wanted: int) -> None: ...


class NearDuplicates(Protocol):
    """Who finds near-copies of pages (discover/near_duplicates.py)."""

    def ask(self, url: Url, row: PageItem, response: Response, encoding: str) -> None: ...


class FollowsLinks(Protocol):
    """What takes in links (discover/discovery.py)."""

    def follow(self, hrefs: Sequence[str], base: Url, depth: int, referer: str) -> int: ...


class EarlierCrawl(Protocol):
    """The files of an earlier crawl, against which this one goes (output/earlier/crawl.py)."""

    async def open(self) -> None: ...

    def prepare(self, request: Request) -> None: ...

    def carry(self, page: PageItem) -> None: ...

    def compare(self, page: PageItem) -> None: ...

    async def tell(self, *, now: bool = False) -> None: ...


class Leases(Protocol):
    """What is known of the pages in hand (worker/tracking.py)."""

    def of(self, request: Request | None) -> Attempt | None: ...


class Holds(Protocol):
    """Hosts that asked to be left alone (politeness/holds.py)."""

    def note(self, lease: Lease, hold_ms: int, *, for_group: bool) -> None: ...


class Permission(Protocol):
    """What robots.txt files say (politeness/permission.py)."""

    def allows(self, host: str, url: str) -> bool: ...

    def delay_s(self, host: str) -> float | None: ...


class Cookies(Protocol):
    """What workers share of a session (fetch/cookies.py)."""

    def jar(self, request: Request) -> CookieJar: ...

    def has_changed(self, request: Request) -> None: ...


@dataclass
class Tally:
    """What a worker has settled."""

    pages: int = 0
    bytes: int = 0
    dead: int = 0

    def add(self, settled: Iterable[tuple[int, Settlement]]) -> None:
        """Count leases that have ended and were this worker's until then."""
        for _, one in settled:
            self.bytes += one.size
            if one.verdict == "done":
                self.pages += 1
            elif one.verdict == "dead":
                self.dead += 1


class AtWork(Protocol):
    """The worker itself (worker/exchange.py)."""

    @property
    def has_valid_leases(self) -> bool: ...

    @property
    def scope(self) -> set[str]: ...

    @property
    def tally(self) -> Tally: ...


class PageContext(Protocol):
    """What a spider needs of a crawl to read a page: of one that runs, or of none at all, where a
    command of Scrapy's looks at a page by itself (worker/detached.py)."""

    @property
    def config(self) -> Config: ...

    @property
    def worker_name(self) -> str:
        """Who fetches, as rows say it."""

    @property
    def discovery(self) -> Links: ...

    @property
    def tracking(self) -> Leases: ...

    @property
    def closer_reading(self) -> CloserReading | None:
        """Where more is wanted of pages than the links to follow."""

    @property
    def attributes(self) -> PageAttributes | None:
        """Where rows are wanted of what pages say of themselves."""

    @property
    def extraction(self) -> PageExtraction | None:
        """Where rows are wanted of what selectors find in pages."""

    @property
    def refresh(self) -> Refresh | None:
        """Where pages are revisited."""

    @property
    def near(self) -> NearDuplicates | None:
        """Where near-copies of pages are looked for."""

    @property
    def earlier(self) -> EarlierCrawl | None:
        """Where pages are asked for only if they have changed since an earlier crawl."""


class RunningCrawl(PageContext, Protocol):
    """What others may use of a crawl that this worker has joined (worker/crawl.py). Its `config` is
    this worker's own settings; what belongs to the crawl is in the frontier's plan."""

    @property
    def redis(self) -> tuple[str, dict[str, Any]]:
        """The URL and the parameters of the Redis in use."""

    @property
    def frontier(self) -> Frontier: ...

    @property
    def worker(self) -> AtWork: ...

    @property
    def discovery(self) -> RankedLinks: ...

    @property
    def holds(self) -> Holds: ...

    @property
    def permission(self) -> Permission | None: ...

    @property
    def cookies(self) -> Cookies | None: ...

    @property
    def on_handed_in(self) -> list[Callable[[], Awaitable[None]]]:
        """Called when all is settled, while the feeds and the frontier are still open."""


class SharesFrontier:
    """Marks a scheduler that announces a running crawl."""


def is_in_use(settings: BaseSettings) -> bool:
    """Whether a project has our scheduler, or one derived from it."""
    return issubclass(load_object(settings["SCHEDULER"]), SharesFrontier)


def running_crawl(crawler: Crawler) -> RunningCrawl | None:
    """The crawl that this worker has joined; None before, and without our scheduler."""
    found: RunningCrawl | None = getattr(crawler, _JOINED, None)
    return found


TYPED_HOSTS = "TYPED_HOSTS"
"""A setting that commands make of the URLs that the user gives them: those are seeds, in a way."""


def seed_names(crawler: Crawler) -> Collection[str]:
    """Hosts or domains that seeds brought into scope."""
    crawl = running_crawl(crawler)
    return crawl.worker.scope if crawl is not None else crawler.settings.getlist(TYPED_HOSTS)


def when_joined(crawler: Crawler, callback: Callable[[RunningCrawl], None]) -> None:
    """Call back once this worker has a crawl to work at: now, if it has."""
    crawl = running_crawl(crawler)
    if crawl is not None:
        callback(crawl)
    else:
        setattr(crawler, _AWAITED, [*getattr(crawler, _AWAITED, ()), callback])


def announce(crawler: Crawler, crawl: RunningCrawl) -> None:
    """This worker has joined a crawl. For worker/membership.py alone."""
    setattr(crawler, _JOINED, crawl)
    for callback in getattr(crawler, _AWAITED, ()):
        callback(crawl)


def withdraw(crawler: Crawler) -> None:
    """It could not begin to work at it after all."""
    setattr(crawler, _JOINED, None)
