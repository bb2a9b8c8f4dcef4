"""What is looked at before a worker starts, so that what would stop it is said in one line."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

from crawlproj.config import Config, environment, take_arguments, take_crawl_name
from crawlproj.discover.seeds import read_seeds
from crawlproj.errors import ConfigError
from crawlproj.frontier.pacing import Overrides
from crawlproj.operate import hook, worker_metrics
from crawlproj.operate.command import resolve
from crawlproj.operate.project_spiders import MODULE, SITE, example
from crawlproj.server import connection
from crawlproj.urls import UrlError, normalise
from crawlproj.worker.join import plan_of
from crawlproj.worker.needs import check_needs

ARGUMENTS_OF = SITE
"""The spider whose arguments are known; those of others are their own affair."""


SMALL_CAPACITY = 100_000
"""URLs in the first layer of a crawl's seen filter that is begun by another command than `crawl`:
200 kB instead of 18 MB, which a finished crawl keeps. The filter grows by itself."""


class Start(NamedTuple):
    """What a worker may be started with."""

    crawl: str
    redis: connection.Resolved


def check_start(
    settings: Any, names: Iterable[str], args: list[str], given: dict[str, str]
) -> Start:
    """Say before anything starts what would stop it: the spider's name, its arguments, its seeds,
    the settings, Redis. The settings have the crawl's name and its Redis from now on."""
    _check_spider(names, args)
    own = settings.copy()
    if args[0] == ARGUMENTS_OF:
        take_arguments(own, given)
    else:
        take_crawl_name(own, given)
    config = Config.from_settings(own, given)
    _check_seeds(config.seeds)
    check_needs(plan_of(config), config)
    Overrides(config.overrides)
    hook.check(config.notify)
    worker_metrics.check(config)
    if config.store:
        # Late: what a store needs is imported by those who have one.
        from crawlproj.output.store.opening import open_database

        folder = config.folder_of(config.crawl or args[0])
        open_database(config.store, folder).close()
    if config.crawl:
        take_crawl_name(settings, {"crawl": config.crawl})
    resolved = resolve(settings, may_begin=True)
    # Not asyncio.run(): it would leave the thread without the loop that Scrapy looks for.
    loop = asyncio.new_event_loop()
    loop.run_until_complete(_check_redis(resolved))
    loop.close()
    return Start(config.crawl or args[0], resolved)


def small_filter(settings: Any) -> list[str]:
    """Words of a command line for a small seen filter, unless the user has said how large."""
    if environment.given(settings, "SEEN_CAPACITY") is not None:
        return []
    return ["-s", f"SEEN_CAPACITY={SMALL_CAPACITY}"]


def _check_spider(names: Iterable[str], args: list[str]) -> None:
    """Wrong use, unless one spider of the project is named, and nothing else is."""
    # Scrapy hands options that it does not know on as arguments.
    options = [word for word in args if word.startswith("-")]
    if options:
        raise ConfigError(f"no such option {options[0]}; scrapy crawl --help lists them")
    spiders = list(names)
    known = f"name one of {', '.join(spiders)}" if spiders else "this project has none"
    if not args:
        raise ConfigError(f"which spider? {known} (scrapy crawl {example(spiders)})")
    if args[0] not in spiders:
        raise ConfigError(f"{args[0]}: no such spider; {known} ({_meant(args[0], spiders)})")
    if len(args) > 1:
        raise ConfigError(f"too many arguments, from {args[1]!r} on; -a NAME=VALUE gives one")


def _meant(name: str, spiders: list[str]) -> str:
    """What somebody may have wanted who names a spider that is not there."""
    if name == SITE:
        return f'"{MODULE}" in SPIDER_MODULES brings {SITE}'
    return f"scrapy crawl {example(spiders)} -a crawl={name}, if that is the name of a crawl"


def _check_seeds(seeds: str) -> None:
    try:
        for seed in read_seeds(seeds):
            normalise(seed)
    except UrlError as error:
        raise ConfigError(f"seeds: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"seeds={seeds}: the file cannot be read: {error}") from None


async def _check_redis(resolved: connection.Resolved) -> None:
    async with connection.client_of(resolved):
        pass  # it answers, and will do
