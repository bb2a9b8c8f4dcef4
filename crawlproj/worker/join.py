"""How a worker comes into a crawl: what it would begin the crawl with, and where seeds come.

A crawl that exists keeps the plan it was begun with; whoever joins goes by that, so `scrapy crawl
site` on the second machine needs no arguments.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.spiderloader import get_spider_loader
from scrapy_redis.spiders import RedisMixin

from crawlproj.config import BY_URL, Config
from crawlproj.discover.ranking import ranked_by_scripts, strategy
from crawlproj.discover.seeds import LIST, SET, SORTED_SET, SeedList, read_seeds, usual_key
from crawlproj.errors import ConfigError
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import WITH_SEED, Arrival
from crawlproj.frontier.noticeboard import ran_out_of_time_ms, spider_of
from crawlproj.frontier.plan import Plan
from crawlproj.urls import UrlError, normalise, param_pattern
from crawlproj.worker import replan
from crawlproj.worker.needs import check_needs

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings, Settings

logger = logging.getLogger(__name__)

MOST_COMPARED = 100
"""Seeds that are looked up one by one, for a hint only."""

_GREETINGS = {
    "new": "Beginning the crawl %r (epoch %s)",
    "joined": "Joining the crawl %r (epoch %s), which is running",
    "resumed": "Resuming the crawl %r (epoch %s), which was interrupted",
    "timed_out": "Resuming the crawl %r (epoch %s), whose time was over",
    "finished": "The crawl %r (epoch %s), which this run belongs to, has finished",
}


def plan_of(config: Config, spider: str = "") -> Plan:
    """What this worker would begin a crawl with."""
    ranking = strategy(config.strategy, config.weights)
    return Plan.of(config, spider=spider, novelty=ranked_by_scripts(ranking))


async def join(
    frontier: Frontier,
    config: Config,
    asked_for: Collection[str] = (),
    *,
    spider: str = "",
    arrival: Arrival = WITH_SEED,
) -> Plan | None:
    """Begin, join or resume the crawl; returns its plan, which the frontier has too, or None while
    there is nothing to work at. What was asked for and is not so is said."""
    wanted = plan_of(config, spider or frontier.crawl)
    check_needs(wanted, config)
    was_over = await ran_out_of_time_ms(frontier) > 0
    opened = await frontier.open(wanted, config.run_id or secrets.token_hex(8), arrival)
    if opened.mode == "waiting":
        return None
    greeting = "timed_out" if opened.mode == "resumed" and was_over else opened.mode
    logger.info(_GREETINGS[greeting], frontier.crawl, opened.epoch)
    if opened.mode in ("joined", "resumed") and await _brings_others(frontier, config, opened.mode):
        logger.warning(
            "The seeds given now are added to it. To begin another crawl beside it, give that a "
            "name: -a crawl=NAME",
        )
    _refuse_what_only_users_allow(frontier.plan, config)
    check_needs(frontier.plan, config)
    if opened.mode == "resumed":
        asked_for = set(asked_for) - {"minutes"}  # who goes on with it says how long
        await _change(frontier, wanted, asked_for)
    if differing := frontier.plan.differing(wanted, asked_for):
        logger.warning(
            "The crawl was begun with %s and goes on with that (scrapy change %s NAME=VALUE "
            "changes budgets, depth, time and pace; -a crawl=NAME begins another crawl)",
            ", ".join(differing),
            frontier.crawl,
        )
    if frontier.plan.cookies is None:
        frontier.plan = replace(frontier.plan, cookies=config.cookies)
    return frontier.plan


def _refuse_what_only_users_allow(plan: Plan, config: Config) -> None:
    """What a plan cannot bring about by itself: code to run is named by the user alone, what shares
    cookies is put together before the crawl is known, and where a store is may take a password."""
    if "." in plan.strategy and plan.strategy != config.strategy:
        raise ConfigError(
            f"The crawl ranks links by {plan.strategy}, which this worker was not told to "
            f"import: add -a strategy={plan.strategy} if you know it, on every machine"
        )
    if plan.cookies and not config.cookies:
        raise ConfigError(
            "The workers of this crawl share their cookies, and this one was started without: add "
            f"-s CRAWL_COOKIES={plan.cookies}, on every machine"
        )
    if plan.stored and not config.store:
        raise ConfigError(
            "The workers of this crawl keep pages in a store, and this one was started without: "
            "add -a store=… or set CRAWL_STORE, on every machine"
        )
    if config.store and not plan.stored:
        logger.warning(
            "The crawl was begun without a store: what is done already, and what workers without "
            "one do, is not in it"
        )


async def _change(frontier: Frontier, wanted: Plan, asked_for: Collection[str]) -> None:
    """Change what who goes on with a crawl may change of its plan by asking for it."""
    now, changes = replan.changeable(frontier.plan), {}
    for name, value in replan.changeable(wanted).items():
        is_asked = replan.FIELDS[name] in asked_for and value not in (None, now[name])
        is_asked = is_asked and name not in replan.RULES
        if is_asked and not replan.refusal(name, value, now[name]):
            changes[name] = value
    if not changes:
        return
    try:
        await replan.change(frontier, changes)
        logger.info("It goes on with %s, as asked for", replan.as_text(changes))
    except ConfigError as error:
        logger.warning("%s", error)


async def _brings_others(frontier: Frontier, config: Config, mode: str) -> bool:
    """Whether a worker that goes on with a crawl brings seeds which that does not have. Who joins
    may have been started with those who work there, and with the seeds that they are about to push:
    only a crawl that has some, and none of these, has others."""
    drop, urls = param_pattern(frontier.plan.drop_params), []
    for seed in read_seeds(config.seeds)[:MOST_COMPARED]:
        with suppress(UrlError):
            urls.append(normalise(seed, drop=drop))
    known = await frontier.taken([(url.host, str(url)) for url in urls])
    if all(known) or mode == "resumed":
        return not all(known)
    return not any(known) and (await frontier.counts()).get("discovered", 0) > 0


class Identity(NamedTuple):
    """What makes two requests of a crawl one: their URL without the dropped parameters, or what
    the project's fingerprinter says."""

    by_url: bool
    drop: re.Pattern[str]

    @classmethod
    def of(cls, plan: Plan) -> Identity:
        """By the plan of a crawl."""
        by_url = plan.identity == BY_URL
        return cls(by_url, param_pattern(plan.drop_params if by_url else ()))


async def settings_of(client: Any, settings: Settings, crawl: str) -> Settings:
    """The settings that a crawl's workers have, for whoever knows only its name: with those of the
    spider that it was begun with, if this project has that."""
    return _with_spider(settings, await spider_of(client, crawl))[0]


def _with_spider(settings: Settings, name: str) -> tuple[Settings, type[Spider] | None]:
    """The settings with those of a spider, and the spider, if this project has it."""
    loader, own = get_spider_loader(settings), settings.copy()
    if name not in loader.list():
        return own, None
    spider = loader.load(name)
    spider.update_settings(own)
    return own, spider


async def seed_list_of(client: Any, settings: Settings, crawl: str) -> SeedList:
    """Where users push seeds of a crawl, for whoever knows only its name. A spider that this
    project does not have is taken for one without settings of its own."""
    name = await spider_of(client, crawl)
    own, spider = _with_spider(settings, name)
    if spider is None:
        return _seed_list(client, own, None, name, crawl)
    return seed_list(client, own, spider, crawl)


def seed_list(
    client: Any, settings: BaseSettings, spider: Spider | type[Spider], crawl: str
) -> SeedList:
    """Where users push seeds, as scrapy-redis's settings and spiders name it."""
    named = getattr(spider, "redis_key", None)
    if crawl != spider.name:
        # What the class says: of its instance scrapy-redis has filled in the spider's name.
        named = getattr(spider if isinstance(spider, type) else type(spider), "redis_key", None)
    return _seed_list(client, settings, named, spider.name, crawl)


def _seed_list(
    client: Any, settings: BaseSettings, named: str | None, spider: str, crawl: str
) -> SeedList:
    """By the key that the spider names, if it does, or else the setting. A crawl that is not called
    like its spider has a key of its own, also where the named one has no %(name)s."""
    named = named or settings.get("REDIS_START_URLS_KEY")
    key = usual_key(crawl)
    if named and (crawl == spider or "%(name)" in named):
        key = named % {"name": crawl}
    if settings.getbool("REDIS_START_URLS_AS_SET"):
        return SeedList(client, key, SET)
    if settings.getbool("REDIS_START_URLS_AS_ZSET"):
        return SeedList(client, key, SORTED_SET)
    return SeedList(client, key, LIST)


def warn_of_ignored_settings(settings: BaseSettings, crawl: str) -> None:
    """Settings of scrapy-redis by which somebody expects what does not happen here."""
    if settings.getbool("SCHEDULER_FLUSH_ON_START"):
        logger.warning(
            "SCHEDULER_FLUSH_ON_START is not heeded: no start wipes what workers share; "
            "scrapy purge %s --yes begins anew",
            crawl,
        )
    queue = str(settings.get("SCHEDULER_QUEUE_CLASS") or "")
    if queue and "Priority" not in queue:
        logger.warning(
            "SCHEDULER_QUEUE_CLASS=%s is not heeded: a host's requests are fetched by priority, "
            "and among equals first come, first served",
            queue,
        )


def waits_for_ever(spider: Spider) -> bool:
    """True for a scrapy-redis spider that was not given a time after which to close."""
    return isinstance(spider, RedisMixin) and not getattr(spider, "max_idle_time", 0)
