"""`scrapy crawl site`: Scrapy's command, with what is wrong said in one line before it starts."""

from __future__ import annotations

import argparse
import logging
import sys
from typing import TYPE_CHECKING

from scrapy.commands import crawl
from scrapy.exceptions import UsageError
from scrapy.utils.project import inside_project

from crawlproj.engine import memory_limit
from crawlproj.errors import ConfigError, CrawlError
from crawlproj.operate.command import check_profile, check_start, speak_in_one_line
from crawlproj.running import is_in_use

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler

EXIT_CODES = {memory_limit.REASON: memory_limit.REPLACE_ME, "failed": 1, "could not start": 1}
"""By the reason for which the spider closed; others are 0."""

NO_PROJECT = "no project is here: go to the folder of yours, where its scrapy.cfg is"

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
    def add_options(self, parser: argparse.ArgumentParser) -> None:
        speak_in_one_line(parser)
        super().add_options(parser)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        check_profile()
        if not inside_project():
            raise UsageError(NO_PROJECT)
        super().process_options(args, opts)
        if self.settings is not None and self.settings.get("LOG_LEVEL") != "DEBUG":
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
        try:
            check_start(self.settings, spiders, args, opts.spargs)
        except ConfigError as error:
            raise UsageError(str(error)) from None
        except CrawlError as error:
            print(error, file=sys.stderr)
            self.exitcode = 1
            return
        super().run(args, opts)
        assert self._crawler.stats is not None
        reason = self._crawler.stats.get_value("finish_reason")
        self.exitcode = self.exitcode or EXIT_CODES.get(reason, 0)

    def _create_crawler(self, spidercls: type[Spider] | str) -> Crawler:
        self._crawler = super()._create_crawler(spidercls)
        return self._crawler


def _is_warning(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING
