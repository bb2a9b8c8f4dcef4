"""Puts a worker together: the one place that knows which part is given which.

`assemble` reads in the order of a URL's way: how it comes in, how it is judged, how it goes out,
and how the crawl ends.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from crawlproj.config import Config, names_connections
from crawlproj.discover.discovery import Discovery
from crawlproj.discover.patterns import Evidence
from crawlproj.discover.quarantine import Quarantine
from crawlproj.discover.ranking import Novelty, Strategy, strategy
from crawlproj.discover.seeds import Intake, parse_seed
from crawlproj.discover.sitemap_reading import SitemapReader
from crawlproj.fetch.connections import SystemResolver
from crawlproj.fetch.cookies import NOT_SHARED, CookiesMiddleware, SharedCookies, cookie_advice
from crawlproj.frontier import worker_names
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.limits import ADDRESS, HOST
from crawlproj.frontier.pacing import Overrides
from crawlproj.frontier.proxies import Proxies
from crawlproj.frontier.replication import Replication
from crawlproj.politeness.groups import AddressGroups
from crawlproj.politeness.holds import Holds
from crawlproj.politeness.permission import Permission
from crawlproj.server import connection
from crawlproj.urls import param_pattern
from crawlproj.worker import identity, join
from crawlproj.worker.admission import Admission
from crawlproj.worker.crawl import Crawl, InCrawl
from crawlproj.worker.exchange import Worker
from crawlproj.worker.finish import Ending, Obedience
from crawlproj.worker.place import Place
from crawlproj.worker.plan_in_use import PlanInUse
from crawlproj.worker.pulse import Pulse
from crawlproj.worker.requests import Requests
from crawlproj.worker.seen_filter import SeenFilter
from crawlproj.worker.tracking import Tracking

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)


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


def assemble(place: Place, config: Config) -> Crawl:
    """What works at a crawl that was joined, by its plan."""
    frontier, spider = place.frontier, place.spider
    plan = PlanInUse(frontier, config)
    ranking = strategy(config.strategy, config.weights)

    surroundings = InCrawl(place)
    worker = _worker(place, config, surroundings, ranking)
    tracking = Tracking(lambda held: worker.end(held, held.since))

    permission = _permission(place, config, worker)
    introduce = permission.introduce if permission is not None else _nobody
    quarantine = Quarantine(
        frontier, Evidence(config.patterns, config.pattern_pages, config.trap_queries)
    )
    discovery = Discovery(
        worker,
        plan.rules,
        ranking,
        introduce,
        quarantine=quarantine,
        drop=param_pattern(config.drop_params),
        keeps_referer=config.referer,
    )
    sitemaps = SitemapReader(discovery)
    if permission is not None and config.sitemaps:
        permission.on_sitemaps = sitemaps.offer

    seen = SeenFilter.from_spider(spider)
    seen.attach(worker, join.Identity.of(config))
    proxies = Proxies(config.proxies)
    requests = Requests(
        spider,
        worker,
        tracking,
        seen,
        proxies=proxies,
        introduce=introduce,
        max_record_bytes=config.max_record_bytes,
        cookie_advice=cookie_advice(place.crawler.settings),
    )
    seeds = join.seed_list(frontier.client, place.crawler.settings, spider, frontier.crawl)
    intake = Intake(
        seeds,
        getattr(spider, "make_request_from_data", parse_seed),
        requests.seed,
        worker.push_now,
        lambda: worker.state in ("running", "paused", "limit"),
    )

    holds = Holds(by_group=frontier.limits.group != HOST)
    groups = (
        AddressGroups(worker.end, SystemResolver()) if frontier.limits.group == ADDRESS else None
    )
    admission = Admission(spider, holds, permission, quarantine, sitemaps, proxies)

    stay = config.stay or join.waits_for_ever(spider)
    ending = Ending(frontier, seeds, place.idle, stay=stay, idle_s=place.idle_s)
    crawl = surroundings.crawl = Crawl(
        config=config,
        redis=(place.redis.url, place.redis.params),
        frontier=frontier,
        worker=worker,
        tracking=tracking,
        discovery=discovery,
        holds=holds,
        permission=permission,
        cookies=_cookies(place, config),
        place=place,
        plan=plan,
        seen=seen,
        intake=intake,
        requests=requests,
        quarantine=quarantine,
        groups=groups,
        admission=admission,
        obedience=Obedience(place, worker, ending),
        pulse=Pulse(worker.tally, config.lease_timeout_s),
    )
    frontier.on_plan = crawl.change_plan
    return crawl


def _worker(place: Place, config: Config, surroundings: InCrawl, ranking: Strategy) -> Worker:
    return Worker(
        place.frontier,
        surroundings,
        prefetch=place.crawler.settings.getint("CONCURRENT_REQUESTS"),
        lease_timeout_s=config.lease_timeout_s,
        tells_all=isinstance(ranking, Novelty),
        backlog=config.backlog,
        watermark=config.watermark,
    )


def _permission(place: Place, config: Config, worker: Worker) -> Permission | None:
    settings = place.crawler.settings
    if not (config.robots and settings.getbool("ROBOTSTXT_OBEY")):
        if config.sitemaps:
            logger.warning("CRAWL_SITEMAPS: no robots.txt is asked for, so none names a sitemap")
        return None
    return Permission(
        place.frontier,
        worker.push,
        user_agent=settings.get("ROBOTSTXT_USER_AGENT") or settings["USER_AGENT"],
        max_attempts=place.frontier.limits.max_attempts,
        retry_delay_s=config.retry_delay_s,
        longest_pause_s=config.longest_pause_s,
    )


def _cookies(place: Place, config: Config) -> SharedCookies | None:
    if not config.cookies:
        return None
    if not place.engine.has_downloader_middleware(CookiesMiddleware):
        logger.warning(NOT_SHARED)
    return SharedCookies(place.frontier)


def _nobody(host: str) -> None:
    """No robots.txt is asked for."""
