"""`scrapy crawl site`: Scrapy's command, with what is wrong said in one line before it starts."""

from __future__ import annotations

import argparse
import logging
import sys
from contextlib import suppress

from scrapy.commands import crawl
from scrapy.exceptions import UsageError
from scrapy.utils.project import inside_project

from crawlproj.engine import memory_limit
from crawlproj.engine.commands import MakesCrawler
from crawlproj.errors import ConfigError, CrawlError
from crawlproj.operate import logs
from crawlproj.operate.command import check_project, hide_usage
from crawlproj.operate.starting import check_start
from crawlproj.running import is_in_use

EXIT_CODES = {
    memory_limit.OUT_OF_MEMORY: memory_limit.REPLACE_ME,
    "failed": 1,
    "could not start": 1,
}
"""By the reason for which the spider closed; others are 0."""

NO_PROJECT = (
    "no project is here, so that only site is known: go to the folder where its scrapy.cfg is"
)

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


class Command(MakesCrawler, crawl.Command):
    def add_options(self, parser: argparse.ArgumentParser) -> None:
        hide_usage(parser)
        super().add_options(parser)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings is not None
        check_project(self.settings)
        super().process_options(args, opts)
        with suppress(ConfigError):  # said when it starts
            name = opts.spargs.get("crawl") or self.settings.get("CRAWL_NAME")
            logs.install(self.settings, name or (args[0] if args else ""))
        if self.settings.get("LOG_LEVEL") != "DEBUG":
            for name in CHATTER:
                # By a filter, since Scrapy resets the levels of its loggers when it starts.
                logging.getLogger(name).addFilter(_is_warning)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings is not None and self.crawler_process is not None
        if not is_in_use(self.settings):
            # Another project, of an environment that the package is installed in.
            super().run(args, opts)
            return
        spiders = self.crawler_process.spider_loader.list()
        if args and args[0] not in spiders and not inside_project():
            raise UsageError(f"{args[0]}: {NO_PROJECT}")
        try:
            check_start(self.settings, spiders, args, opts.spargs)
        except ConfigError as error:
            raise UsageError(str(error)) from None
        except CrawlError as error:
            print(error, file=sys.stderr)
            self.exitcode = 1
            return
        super().run(args, opts)
        assert self.crawler is not None and self.crawler.stats is not None
        reason = self.crawler.stats.get_value("finish_reason")
        self.exitcode = self.exitcode or EXIT_CODES.get(reason, 0)


def _is_warning(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING
