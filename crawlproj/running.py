"""The crawl that a worker is at work on, as spiders, middlewares, extensions and handlers see it.

They ask for it with `running_crawl(crawler)`; whoever joins the crawl has announced it here. Nobody
reaches through Scrapy's engine into the scheduler. Names the parts of every room, and imports none:
this is below all of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from scrapy.utils.misc import load_object

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from crawlproj.config import Config
    from crawlproj.discover.discovery import Discovery
    from crawlproj.fetch.cookies import SharedCookies
    from crawlproj.frontier.frontier import Frontier
    from crawlproj.frontier.outcomes import Held
    from crawlproj.politeness.holds import Holds
    from crawlproj.politeness.permission import Permission
    from crawlproj.urls import Url
    from crawlproj.worker.exchange import Worker
    from crawlproj.worker.tracking import Tracking

_JOINED = "crawlproj_running_crawl"
_AWAITED = "crawlproj_when_joined"
"""Attributes of Scrapy's crawler: its life is that of what they hold."""


@dataclass(kw_only=True)
class RunningCrawl:
    """What others may use of a crawl that this worker has joined."""

    config: Config
    """This worker's settings, with the plan of the crawl."""
    redis: tuple[str, dict[str, Any]]
    """The URL and the parameters of the Redis in use."""
    frontier: Frontier
    worker: Worker
    tracking: Tracking
    discovery: Discovery
    holds: Holds
    permission: Permission | None
    cookies: SharedCookies | None
    on_handed_in: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """Called when all is settled, while the feeds and the frontier are still open."""


class Links(Protocol):
    """What a spider does with the links of its pages."""

    @property
    def worker_name(self) -> str: ...

    def normal(self, url: str, base: Url | None = None, encoding: str = "utf-8") -> Url: ...

    def seed_priority(self, url: Url) -> int: ...

    def read(
        self,
        page: Url,
        body: bytes,
        hrefs: Sequence[str],
        base: Url,
        depth: int,
        *,
        encoding: str = "utf-8",
    ) -> int: ...

    def redirect(self, url: Url, depth: int, referer: str, passed: list[str]) -> str: ...


class Leases(Protocol):
    """What is known of the pages in hand."""

    def of(self, request: Request | None) -> Held | None: ...


class PagesAtHand(Protocol):
    """What a spider needs of a crawl to read a page: of one that runs, or of none at all, where a
    command of Scrapy's looks at a page by itself (worker/detached.py)."""

    @property
    def config(self) -> Config: ...

    @property
    def discovery(self) -> Links: ...

    @property
    def tracking(self) -> Leases: ...


class SharesFrontier:
    """Marks a scheduler that announces a running crawl."""


def is_in_use(settings: BaseSettings) -> bool:
    """Whether a project has our scheduler, or one derived from it."""
    return issubclass(load_object(settings["SCHEDULER"]), SharesFrontier)


def running_crawl(crawler: Crawler) -> RunningCrawl | None:
    """The crawl that this worker has joined; None before, and without our scheduler."""
    found: RunningCrawl | None = getattr(crawler, _JOINED, None)
    return found


def seed_names(crawler: Crawler) -> Collection[str]:
    """Hosts or domains that seeds brought into scope."""
    crawl = running_crawl(crawler)
    return crawl.worker.scope if crawl is not None else ()


def when_joined(crawler: Crawler, callback: Callable[[RunningCrawl], None]) -> None:
    """Call back once this worker has a crawl to work at: now, if it has."""
    crawl = running_crawl(crawler)
    if crawl is not None:
        callback(crawl)
    else:
        setattr(crawler, _AWAITED, [*getattr(crawler, _AWAITED, ()), callback])


def announce(crawler: Crawler, crawl: RunningCrawl) -> None:
    """This worker has joined a crawl. For the scheduler alone."""
    setattr(crawler, _JOINED, crawl)
    for callback in getattr(crawler, _AWAITED, ()):
        callback(crawl)


def withdraw(crawler: Crawler) -> None:
    """It could not begin to work at it after all."""
    setattr(crawler, _JOINED, None)
