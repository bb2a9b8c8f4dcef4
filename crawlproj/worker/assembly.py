"""Puts a worker together, stage by stage, in the order of a URL's way: each stage is built of those
before it."""

from __future__ import annotations

import logging

from crawlproj.config import Config
from crawlproj.discover.stage import LinkDiscovery, make_discovery, make_refresher
from crawlproj.fetch.cookies import NOT_SHARED, CookiesMiddleware, SharedCookies
from crawlproj.fetch.resolving import SystemResolver
from crawlproj.politeness.stage import Politeness, make_politeness, retry_delay_of
from crawlproj.running import EarlierCrawl, PageAttributes, PageExtraction, Refresh
from crawlproj.worker.admission import Admission, limits_of
from crawlproj.worker.crawl import Crawl
from crawlproj.worker.crawl_hooks import CrawlHooks
from crawlproj.worker.entrance import make_entrance
from crawlproj.worker.exchange import Worker
from crawlproj.worker.finish import make_state_handler
from crawlproj.worker.plan_in_use import PlanInUse
from crawlproj.worker.process import WorkerProcess
from crawlproj.worker.tracking import Tracking

logger = logging.getLogger(__name__)


def assemble(process: WorkerProcess, config: Config) -> Crawl:
    """What works at a crawl that was joined, by its plan."""
    plan = PlanInUse(process.frontier, retry_delay_of(config))
    hooks = CrawlHooks(process)
    worker = _make_worker(process, config, hooks)
    tracking = Tracking(worker.end)

    politeness = make_politeness(worker, config, process.crawler.settings, SystemResolver)
    links = make_discovery(
        worker, config, plan.rules, politeness.queue_robots_txt, process.output.tables.link_table
    )
    refresh = make_refresher(process.frontier, process.spider)
    _connect(process, config, politeness, links, refresh)
    earlier = _make_earlier(process, config, links)
    entrance = make_entrance(process, config, worker, tracking, politeness.queue_robots_txt)

    crawl = Crawl(
        process=process,
        config=config,
        plan=plan,
        worker=worker,
        tracking=tracking,
        politeness=politeness,
        links=links,
        entrance=entrance,
        admission=Admission(
            process.spider,
            worker,
            tracking,
            politeness,
            links,
            entrance.proxies,
            limits_of(process.crawler.settings),
            refresh,
            earlier,
        ),
        cookies=_make_cookies(process),
        attributes=_make_attributes(process),
        extraction=_make_extraction(process),
        refresh=refresh,
        earlier=earlier,
        state_handler=make_state_handler(process, worker, entrance.seeds),
    )
    hooks.crawl = crawl
    process.frontier.on_plan = crawl.change_plan
    return crawl


def _connect(
    process: WorkerProcess,
    config: Config,
    politeness: Politeness,
    links: LinkDiscovery,
    refresh: Refresh | None,
) -> None:
    """Let pages and robots.txt files come to those who want them, and pages that are due be
    revisited."""
    if refresh is not None:
        links.sitemaps.refresh = refresh
        process.frontier.before_lease = refresh.wake
    if links.near is not None:
        process.engine.before_item_pipelines(links.near.mark)
    if process.frontier.plan.archive:
        process.output.keep_archive(process.frontier)
    if config.sitemaps:
        politeness.offer_sitemaps_to(links.sitemaps.offer)


def _make_worker(process: WorkerProcess, config: Config, hooks: CrawlHooks) -> Worker:
    return Worker(
        process.frontier,
        hooks,
        connections=process.crawler.settings.getint("CONCURRENT_REQUESTS"),
        lease_timeout_s=config.lease_timeout_s,
        pushes_every_link=bool(process.frontier.plan.novelty),
        most_waiting=config.backlog,
        watermark=config.watermark,
    )


def _make_attributes(process: WorkerProcess) -> PageAttributes | None:
    plan = process.frontier.plan
    return process.output.tables.attribute_table(plan.keep) if plan.wants_attributes else None


def _make_extraction(process: WorkerProcess) -> PageExtraction | None:
    rules = process.frontier.plan.extract
    return process.output.tables.extract_table(rules) if rules else None


def _make_earlier(
    process: WorkerProcess, config: Config, links: LinkDiscovery
) -> EarlierCrawl | None:
    if not config.against:
        return None
    output, frontier = process.output, process.frontier
    return output.earlier_crawl(frontier, links.discovery, links.closer_reading)


def _make_cookies(process: WorkerProcess) -> SharedCookies | None:
    if not process.frontier.plan.cookies:
        return None
    if not process.engine.has_downloader_middleware(CookiesMiddleware):
        logger.warning(NOT_SHARED)
    return SharedCookies(process.frontier)
