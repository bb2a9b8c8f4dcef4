"""The process in which a worker runs: Scrapy's crawler, its engine, its files, and its Redis.

What the worker uses of output/, a room above its own, is said here by name, and given to it by the
scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from crawlproj.config import Config, names_connections
from crawlproj.engine.watch import EngineWatch
from crawlproj.frontier import worker_names
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.pacing import Overrides
from crawlproj.frontier.replication import Replication
from crawlproj.server import connection
from crawlproj.worker import identity
from crawlproj.worker.idle import Idle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from crawlproj.frontier.messages import Lost
    from crawlproj.frontier.outcomes import Attempt
    from crawlproj.running import (
        CloserReading,
        EarlierCrawl,
        FollowsLinks,
        PageAttributes,
        PageExtraction,
    )
    from crawlproj.worker.hooks import Store
    from crawlproj.worker.seen_filter import SeenFilter


class PageTables(Protocol):
    """The tables that a worker keeps of its pages beside the feeds (output/page_tables.py)."""

    def link_table(self) -> Callable[[bytes], None]: ...

    def attribute_table(self, rule: str | None) -> PageAttributes: ...

    def extract_table(self, rules: str) -> PageExtraction: ...


class WorkerOutput(Protocol):
    """All that a worker writes (output/worker_output.py)."""

    @property
    def store(self) -> Store | None: ...

    @property
    def tables(self) -> PageTables: ...

    def flush_rows(self) -> None: ...

    def new_items(self) -> dict[str, int]: ...

    def earlier_crawl(
        self, frontier: Frontier, follow: FollowsLinks, closer: CloserReading | None
    ) -> EarlierCrawl: ...

    def keep_archive(self, frontier: Frontier) -> None: ...

    @property
    def is_behind(self) -> bool: ...

    async def dead(self, attempt: Attempt, reason: str) -> None: ...

    async def lost(self, dead: Iterable[Lost]) -> None: ...

    async def refused(self, ended: Iterable[tuple[Attempt, int | None]]) -> None: ...


@dataclass(frozen=True)
class WorkerProcess:
    """Where a worker is at work, whichever crawl it joins."""

    crawler: Crawler
    spider: Spider
    engine: EngineWatch
    output: WorkerOutput
    redis: connection.Resolved
    frontier: Frontier
    seen: SeenFilter
    idle: Idle
    idle_s: float
    """How long scrapy-redis's settings let the spider be idle before it closes."""
    has_more: Callable[[], bool]
    """Whether requests are on their way, or may come from the spider's start: either goes on with
    the crawl, and a seed opens one again that others have ended."""

    @cached_property
    def worker_name(self) -> str:
        """The worker's name, as rows say it."""
        return worker_names.plain(self.frontier.worker)


async def open_frontier(
    redis: connection.Resolved, config: Config, settings: BaseSettings, crawl: str
) -> Frontier:
    """The frontier of a crawl that this worker may join."""
    client = await connection.connect(redis.url, redis.params)
    return Frontier(
        client,
        crawl,
        worker_names.marked(config.worker_id or identity.new_name()),
        config.seen_audit_one_in,
        replication=Replication(client, config.wait_replicas, config.wait_timeout_s),
        overrides=Overrides(config.overrides, one_connection=not names_connections(settings)),
    )
