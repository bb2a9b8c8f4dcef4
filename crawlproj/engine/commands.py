"""Scrapy's commands, on which ours are built, with doors: for the crawler that one makes, and for
whether there was a response."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from scrapy.commands import BaseRunSpiderCommand, fetch, parse

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response


class MakesCrawler(BaseRunSpiderCommand):
    """To be mixed into a command that runs a spider."""

    crawler: Crawler | None = None
    """The one that was made."""

    def before_crawler(self, spider: type[Spider] | str) -> None:
        """Called with the spider, or its name, before its crawler is made."""

    def _create_crawler(self, spidercls: type[Spider] | str) -> Crawler:
        self.before_crawler(spidercls)
        self.crawler = super()._create_crawler(spidercls)
        return self.crawler


class TellsOfResponse(fetch.Command):
    """`fetch`, and `view` with it."""

    has_response = False

    def _print_response(self, response: Response, opts: argparse.Namespace) -> None:
        self.has_response = True
        super()._print_response(response, opts)


class ParsesResponse(parse.Command):
    @property
    def has_response(self) -> bool:
        return bool(self.first_response)
