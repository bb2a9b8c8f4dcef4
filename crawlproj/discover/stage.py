"""The parts by which links come into a crawl, made for one worker: what this room gives to
worker/assembly.py."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from crawlproj.config import Config
from crawlproj.discover.discovery import Collector, Discovery
from crawlproj.discover.patterns import Evidence
from crawlproj.discover.quarantine import Quarantine
from crawlproj.discover.ranking import strategy
from crawlproj.discover.rules import Rules
from crawlproj.discover.sitemap_reading import SitemapReader
from crawlproj.frontier.plan import Plan
from crawlproj.urls import param_pattern

if TYPE_CHECKING:
    from scrapy import Spider

    from crawlproj.discover.closer_reading import CloserReading
    from crawlproj.discover.near_duplicates import NearDuplicates
    from crawlproj.frontier.frontier import Frontier
    from crawlproj.running import Refresh


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LinkDiscovery:
    """Links of pages, the patterns that are set aside, and the pages of sitemaps."""

    discovery: Discovery
    quarantine: Quarantine
    sitemaps: SitemapReader
    closer_reading: CloserReading | None
    """Where more is wanted of pages than the links to follow."""
    near: NearDuplicates | None
    """Where near-copies of pages are looked for."""


def make_discovery(
    worker: Collector,
    config: Config,
    rules: Rules,
    queue_robots_txt: Callable[[str], None],
    link_table: Callable[[], Callable[[bytes], None]],
) -> LinkDiscovery:
    """By the crawl's plan, for one worker; `queue_robots_txt` is told of the hosts of links,
    `link_table` opens one, if it is wanted."""
    evidence = Evidence(config.patterns, config.pattern_pages, config.trap_queries)
    plan, quarantine = worker.frontier.plan, Quarantine(worker.frontier, evidence)
    discovery = _kind_of(plan)(
        worker,
        rules,
        strategy(plan.strategy, plan.weights),
        queue_robots_txt,
        quarantine=quarantine,
        drop=param_pattern(plan.drop_params),
        keeps_referer=config.referer,
    )
    closer_reading = _make_closer_reading(plan, config, discovery, link_table)
    near = _make_near(worker, quarantine) if plan.near else None
    return LinkDiscovery(discovery, quarantine, SitemapReader(discovery), closer_reading, near)


# Nothing, not even an import, where nobody wants more of pages than their links.


def _kind_of(plan: Plan) -> Callable[..., Discovery]:
    if not (plan.links or plan.check):
        return Discovery
    from crawlproj.discover.checking import CheckingDiscovery

    return partial(CheckingDiscovery, check=plan.check)


def _make_closer_reading(
    plan: Plan,
    config: Config,
    discovery: Discovery,
    link_table: Callable[[], Callable[[bytes], None]],
) -> CloserReading | None:
    if not (plan.links or plan.check):
        return None
    from crawlproj.discover.closer_reading import make_closer_reading

    write = link_table() if plan.links else None
    return make_closer_reading(plan, discovery, write, skip_nofollow=config.nofollow)


def make_refresher(frontier: Frontier, spider: Spider) -> Refresh | None:
    """Where the crawl's plan says that pages are revisited."""
    if not frontier.plan.refresh:
        return None
    if not getattr(spider, "stores_pages", False):
        logger.warning("CRAWL_REFRESH revisits pages of the spider site alone: none of this one's")
        return None
    from crawlproj.discover.refreshing import Refresher

    return Refresher.for_spider(frontier, spider)


def _make_near(worker: Collector, quarantine: Quarantine) -> NearDuplicates:
    from crawlproj.discover.near_duplicates import NearDuplicates

    return NearDuplicates(worker.frontier, quarantine.weigh_near)
