"""The process in which a worker runs: Scrapy's crawler, its engine, its files, and its Redis.

What the worker uses of rooms above its own (engine/, output/) is said here by name, and given to it
by the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from crawlproj.server.connection import Resolved
from crawlproj.worker.idle import Idle

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from crawlproj.frontier.frontier import Frontier
    from crawlproj.frontier.outcomes import Held


class Engine(Protocol):
    """What a worker asks of Scrapy's engine (engine/watch.py)."""

    @property
    def is_starting(self) -> bool: ...

    def wake(self) -> None: ...

    def close(self, reason: str) -> None: ...

    def cut(self) -> int: ...

    def has_downloader_middleware(self, kind: type) -> bool: ...

    def on_end(self, callback: Callable[[Request], None]) -> None: ...

    def on_download_error(self, callback: Callable[[Request, Exception], None]) -> None: ...

    def on_callback(self, callback: Callable[[Response], None]) -> None: ...


class Reports(Protocol):
    """Where a worker writes what it reports (output/reports.py)."""

    def flush_rows(self) -> None: ...

    def new_items(self) -> dict[str, int]: ...

    async def dead(self, held: Held, reason: str) -> None: ...

    async def lost(self, dead: list[tuple[str, float, bytes]]) -> None: ...


@dataclass(frozen=True)
class Place:
    """Where a worker is at work, whichever crawl it joins."""

    crawler: Crawler
    spider: Spider
    engine: Engine
    reports: Reports
    redis: Resolved
    frontier: Frontier
    idle: Idle
    idle_s: float
    """How long scrapy-redis's settings let the spider be idle before it closes."""
    has_more: Callable[[], bool]
    """Whether requests are on their way, or may come from the spider's start: either goes on with
    the crawl, and a seed opens one again that others have ended."""
