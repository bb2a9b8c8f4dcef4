"""Makes what a worker asks of an earlier crawl, as its own crawl and its settings have it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from crawlproj.config import Config
from crawlproj.frontier.meta_keys import STATUSES
from crawlproj.output.earlier.crawl import EarlierCrawl
from crawlproj.output.page_tables import folder_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from crawlproj.frontier.frontier import Frontier
    from crawlproj.running import CloserReading, FollowsLinks


def open_earlier(
    crawler: Crawler, frontier: Frontier, follow: FollowsLinks, closer: CloserReading | None
) -> EarlierCrawl:
    """By the settings of a worker that has joined a crawl."""
    config, spider = Config.from_settings(crawler.settings), crawler.spider
    statuses = getattr(spider, STATUSES, None) or crawler.settings.getlist(
        "HTTPERROR_ALLOWED_CODES"
    )
    return EarlierCrawl(
        Path(config.against),
        folder_of(crawler),
        frontier,
        follow,
        closer,
        needs=_needs(frontier, config, spider),
        statuses=[int(status) for status in statuses],
        skip_nofollow=config.nofollow,
    )


def _needs(frontier: Frontier, config: Config, spider: object) -> str:
    """What a page that has not changed would be missing in, for people; "" for nothing."""
    plan = frontier.plan
    wanted = {
        "items of its own": not getattr(spider, "knows_unchanged", False),
        "attributes": plan.wants_attributes,
        "fields to extract": bool(plan.extract),
        "a store": bool(config.store),
        "links to check": bool(plan.check),
        "anchors": plan.anchors,
        "scripts to run": bool(plan.render),
        "pages to revisit": bool(plan.refresh),
        "near-duplicates to find": bool(plan.near),
    }
    return ", ".join(name for name, is_wanted in wanted.items() if is_wanted)
