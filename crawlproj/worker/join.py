"""How a worker comes into a crawl: what it would begin the crawl with, and where seeds come.

A crawl that exists keeps the plan it was begun with; whoever joins goes by that, so `scrapy crawl
site` on the second machine needs no arguments.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.exceptions import ResponseError
from scrapy.spiderloader import get_spider_loader
from scrapy_redis.spiders import RedisMixin

from crawlproj.config import BY_URL, Config, checked
from crawlproj.discover.ranking import Novelty, strategy
from crawlproj.discover.seeds import LIST, SET, SORTED_SET, SeedList, read_seeds
from crawlproj.errors import ConfigError
from crawlproj.frontier import keys
from crawlproj.frontier import plan as plans
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.limits import UNLIMITED, Limits
from crawlproj.frontier.refusals import CrawlDamaged
from crawlproj.urls import UrlError, normalise, param_pattern
from crawlproj.worker import replan

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings, Settings

logger = logging.getLogger(__name__)

PLANNED = (
    "scope",
    "allow",
    "deny",
    "depth",
    "strategy",
    "weights",
    "stay",
    "media",
    "identity",
    "drop_params",
    "traps",
    "trap_depth",
    "trap_repeats",
    "trap_params",
)
"""What belongs to the crawl and not to a worker, beside its limits."""

_BEFORE = {**{name: getattr(Config(), name) for name in PLANNED}, "identity": BY_URL}
"""What crawls went by whose plan does not say it."""

MOST_COMPARED = 100
"""Seeds that are looked up one by one, for a hint only."""

_GREETINGS = {
    "new": "Beginning the crawl %r (epoch %s)",
    "joined": "Joining the crawl %r (epoch %s), which is running",
    "resumed": "Resuming the crawl %r (epoch %s), which was interrupted",
    "finished": "The crawl %r (epoch %s), which this run belongs to, has finished",
}


def limits_of(config: Config) -> Limits:
    """What this worker would begin a crawl with."""
    ranking = strategy(config.strategy, config.weights)
    return Limits(
        per_host=config.per_host or 1,
        delay_ms=round((config.delay_s or 0) * 1000),
        pages=UNLIMITED if config.pages is None else config.pages,
        pages_per_host=config.pages_per_host or 0,
        pages_per_domain=config.pages_per_domain or 0,
        group=config.group,
        lasts_ms=round((config.minutes or 0) * 60_000),
        max_attempts=config.max_attempts,
        give_up=config.give_up,
        novelty=str(ranking) if isinstance(ranking, Novelty) else "",
        shards=config.shards,
        seen_capacity=config.seen_capacity,
        seen_error_rate=config.seen_error_rate,
    )


async def join(
    frontier: Frontier,
    config: Config,
    asked_for: Collection[str] = (),
    *,
    spider: str = "",
    brings_seed: bool = True,
    seed_found_at: str = "",
) -> Config | None:
    """Begin, join or resume the crawl; returns the worker's settings with the crawl's plan, or
    None while there is nothing to work at. What was asked for and is not so is said."""
    rules, limits = {name: getattr(config, name) for name in PLANNED}, limits_of(config)
    opened = await frontier.open(
        limits,
        {"rules": rules, "spider": spider or frontier.crawl},
        config.run_id or secrets.token_hex(8),
        brings_seed=brings_seed,
        seed_found_at=seed_found_at,
    )
    if opened.mode == "waiting":
        return None
    logger.info(_GREETINGS[opened.mode], frontier.crawl, opened.epoch)
    if opened.mode in ("joined", "resumed") and await _brings_others(frontier, config, opened.mode):
        logger.warning(
            "The seeds given now are added to it. To begin another crawl beside it, give that a "
            "name: -a crawl=NAME",
        )
    wanted = rules | _limits_as_config(limits)
    planned = _rules(opened.plan, config) | _limits_as_config(frontier.limits)
    if opened.mode == "resumed":
        planned["minutes"] = wanted["minutes"]  # who goes on with it says how long
        planned |= await _change(frontier, planned, wanted, asked_for)
    differing = [
        f"{name.removesuffix('_s')} {_shown(planned[name])}"
        for name in planned
        if name in asked_for and planned[name] != wanted[name]
    ]
    if differing:
        logger.warning(
            "The crawl was begun with %s and goes on with that (scrapy change %s NAME=VALUE "
            "changes budgets, depth, time and pace; -a crawl=NAME begins another crawl)",
            ", ".join(differing),
            frontier.crawl,
        )
    return replace(config, **planned)


async def _change(
    frontier: Frontier,
    planned: Mapping[str, Any],
    wanted: Mapping[str, Any],
    asked_for: Collection[str],
) -> dict[str, Any]:
    """What who goes on with a crawl may change of its plan by asking for it; returns that."""
    changes = {}
    for name in replan.CHANGEABLE:
        field = replan.FIELDS.get(name, name)
        before, after = planned[field], wanted[field]
        is_asked = field in asked_for and after not in (None, before)
        if is_asked and not replan.refusal(name, after, before):
            changes[name] = after
    if changes:
        await replan.change(frontier, changes)
        logger.info("It goes on with %s, as asked for", replan.as_text(changes))
    return {replan.FIELDS.get(name, name): value for name, value in changes.items()}


async def _brings_others(frontier: Frontier, config: Config, mode: str) -> bool:
    """Whether a worker that goes on with a crawl brings seeds which that does not have. Who joins
    may have been started with those who work there, and with the seeds that they are about to push:
    only a crawl that has some, and none of these, has others."""
    drop, urls = param_pattern(config.drop_params), []
    for seed in read_seeds(config.seeds)[:MOST_COMPARED]:
        with suppress(UrlError):
            urls.append(normalise(seed, drop=drop))
    known = await frontier.taken([(url.host, str(url)) for url in urls])
    if all(known) or mode == "resumed":
        return not all(known)
    return not any(known) and (await frontier.counts()).get("discovered", 0) > 0


def _rules(plan: dict[str, Any], config: Config) -> dict[str, Any]:
    """The plan that Redis kept. It is checked like a user's settings, for others may have written
    it; and code to run is named by the user alone. What it lacks an older version did not know,
    and did as it is done by default."""
    kept = {**_BEFORE, **plans.part(plan, "rules", PLANNED)}
    try:
        rules = {name: checked(name, kept[name]) for name in PLANNED}
    except ConfigError as error:
        raise CrawlDamaged(f"the plan's rules: {error}") from None
    if "." in rules["strategy"] and rules["strategy"] != config.strategy:
        raise ConfigError(
            f"The crawl ranks links by {rules['strategy']}, which this worker was not told to "
            f"import: add -a strategy={rules['strategy']} if you know it, on every machine"
        )
    return rules


def _limits_as_config(limits: Limits) -> dict[str, Any]:
    return {
        "delay_s": limits.delay_ms / 1000,
        "per_host": limits.per_host,
        "pages": None if limits.pages == UNLIMITED else limits.pages,
        "pages_per_host": limits.pages_per_host or None,
        "pages_per_domain": limits.pages_per_domain or None,
        "group": limits.group,
        "minutes": limits.lasts_ms / 60_000 or None,
        "max_attempts": limits.max_attempts,
        "give_up": limits.give_up,
        "shards": limits.shards,
        "seen_capacity": limits.seen_capacity,
        "seen_error_rate": limits.seen_error_rate,
    }


def _shown(value: Any) -> str:
    return "without limit" if value in (None, (), "") else str(value)


class Identity(NamedTuple):
    """What makes two requests of a crawl one: their URL without the dropped parameters, or what
    the project's fingerprinter says."""

    by_url: bool
    drop: re.Pattern[str]

    @classmethod
    def of(cls, config: Config) -> Identity:
        """By the settings of a worker that has joined the crawl."""
        by_url = config.identity == BY_URL
        return cls(by_url, param_pattern(config.drop_params if by_url else ()))

    @classmethod
    def of_crawl(cls, meta: Mapping[str, str], config: Config) -> Identity:
        """Of the crawl of this META; while there is none, as this process would begin it."""
        if not meta:
            return cls.of(config)
        kept = {**_BEFORE, **plans.part(json.loads(meta["plan"]), "rules", PLANNED)}
        try:
            rules = {name: checked(name, kept[name]) for name in ("identity", "drop_params")}
        except ConfigError:
            raise CrawlDamaged("the plan's rules") from None
        return cls.of(replace(config, **rules))


def own_settings(settings: Settings, crawl: str) -> Settings:
    """The settings with those of the crawl's spider, if this project has it."""
    loader, own = get_spider_loader(settings), settings.copy()
    if crawl in loader.list():
        loader.load(crawl).update_settings(own)
    return own


async def spider_of(client: Any, crawl: str) -> str:
    """The name of the spider that a crawl was begun with; before it is, the crawl's own."""
    with suppress(ResponseError, ValueError, RecursionError):
        plan = json.loads(await client.hget(keys.meta(crawl, 0), "plan") or "{}")
        if isinstance(plan, dict) and isinstance(plan.get("spider"), str):
            return str(plan["spider"])
    return crawl


async def seed_list_of(client: Any, settings: BaseSettings, crawl: str) -> SeedList:
    """Where users push seeds of a crawl, for whoever knows only its name. A spider that this
    project does not have is taken for one without settings of its own."""
    loader, name = get_spider_loader(settings), await spider_of(client, crawl)
    if name not in loader.list():
        named = settings.get("REDIS_START_URLS_KEY")
        return _seed_list(
            client, settings, named % {"name": crawl} if named else keys.start_urls(crawl)
        )
    spider, own = loader.load(name), settings.copy()
    spider.update_settings(own)
    return seed_list(client, own, spider, crawl)


def seed_list(
    client: Any, settings: BaseSettings, spider: Spider | type[Spider], crawl: str
) -> SeedList:
    """Where users push seeds, as scrapy-redis's settings and spiders name it. A crawl that is
    not called like its spider has a key of its own, also where the named one has no %(name)s."""
    named = getattr(spider, "redis_key", None)
    if crawl != spider.name:
        # What the class says: of its instance scrapy-redis has filled in the spider's name.
        named = getattr(spider if isinstance(spider, type) else type(spider), "redis_key", None)
    named = named or settings.get("REDIS_START_URLS_KEY")
    if not named or (crawl != spider.name and "%(name)" not in named):
        return _seed_list(client, settings, keys.start_urls(crawl))
    return _seed_list(client, settings, named % {"name": crawl})


def _seed_list(client: Any, settings: BaseSettings, key: str) -> SeedList:
    if settings.getbool("REDIS_START_URLS_AS_SET"):
        return SeedList(client, key, SET)
    if settings.getbool("REDIS_START_URLS_AS_ZSET"):
        return SeedList(client, key, SORTED_SET)
    return SeedList(client, key, LIST)


def say_what_is_not_heeded(settings: BaseSettings, crawl: str) -> None:
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
