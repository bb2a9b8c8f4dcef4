"""`scrapy crawl site`: Scrapy's command, with what is wrong said in one line before it starts."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys

from scrapy.commands import crawl
from scrapy.exceptions import UsageError

from crawlproj import connection
from crawlproj.config import Config, arguments, refuse_unknown_arguments
from crawlproj.errors import ConfigError, CrawlError
from crawlproj.intake import read_seeds
from crawlproj.urls import UrlError, normalise

CHATTER = (
    "scrapy.utils.log",
    "scrapy.crawler",
    "scrapy.middleware",
    "scrapy.addons",
    "scrapy.statscollectors",
    "scrapy.extensions.feedexport",
    "scrapy.spidermiddlewares.httperror",
)
"""Loggers that fill two screens at each start and end; they speak at DEBUG."""


class Command(crawl.Command):
    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        if self.settings is not None and self.settings.get("LOG_LEVEL") != "DEBUG":
            for name in CHATTER:
                # By a filter, since Scrapy resets the levels of its loggers when it starts.
                logging.getLogger(name).addFilter(_is_warning)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        try:
            self._check(args, opts.spargs)
        except ConfigError as error:
            raise UsageError(str(error), print_help=False) from None
        except CrawlError as error:
            print(error, file=sys.stderr)
            self.exitcode = 1
            return
        super().run(args, opts)

    def _check(self, args: list[str], given: dict[str, str]) -> None:
        assert self.settings is not None and self.crawler_process is not None
        if len(args) != 1 or args[0] not in self.crawler_process.spider_loader.list():
            names = ", ".join(self.crawler_process.spider_loader.list())
            raise ConfigError(f"name one of the spiders: {names} (scrapy crawl site)")
        settings = self.settings.copy()
        if args[0] == "site":
            refuse_unknown_arguments(given)
            for name, setting in arguments().items():
                if name in given:
                    settings.set(setting, given[name], priority="cmdline")
        config = Config.from_settings(settings, given)
        _check_seeds(config.seeds)
        # Not asyncio.run(): it would leave the thread without the loop that Scrapy looks for.
        loop = asyncio.new_event_loop()
        loop.run_until_complete(_check_redis(connection.resolve(self.settings)))
        loop.close()


def _is_warning(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING


def _check_seeds(seeds: str) -> None:
    try:
        for seed in read_seeds(seeds):
            normalise(seed)
    except UrlError as error:
        raise ConfigError(f"seeds: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"seeds={seeds}: the file cannot be read: {error}") from None


async def _check_redis(resolved: connection.Resolved) -> None:
    client = await connection.connect(resolved.url, resolved.params)
    await client.aclose()
