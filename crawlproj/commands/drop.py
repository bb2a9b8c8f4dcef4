"""`scrapy drop site --host H --match REGEX`: deletes queued URLs that are no longer wanted."""

from __future__ import annotations

import argparse
import re

from crawlproj.errors import ConfigError
from crawlproj.frontier import dropping
from crawlproj.frontier.frontier import Frontier
from crawlproj.operate.command import FrontierCommand, refuse_empty, show
from crawlproj.operate.dead_letters import hosts_meant, hosts_named
from crawlproj.operate.progress_line import counting
from crawlproj.plural import counted
from crawlproj.urls import UrlError


class Command(FrontierCommand):
    arguments = "--host H | --match REGEX"
    summary = "Delete queued URLs, of a host or by a pattern; they count as filtered"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--host",
            metavar="H",
            help="those of this host: https://example.com, or example.com for both schemes and "
            "all ports",
        )
        parser.add_argument(
            "--match", metavar="REGEX", help="those whose URL has this regular expression in it"
        )

    def check(self, rest: list[str], opts: argparse.Namespace) -> None:
        refuse_empty(opts, "host", "match")
        if not opts.host and not opts.match:
            raise self.wrong_use("say which: --host, --match, or both")
        _check_host(opts.host)
        _pattern(opts.match)

    async def work(self, frontier: Frontier, rest: list[str], opts: argparse.Namespace) -> int:
        if not await frontier.attach():
            show(opts, {"deleted": 0}, f"{frontier.crawl}: there is no such crawl")
            return 1
        pattern, deleted = _pattern(opts.match), 0
        is_doomed = None if pattern is None else lambda url: bool(pattern.search(url))
        with counting("Deleting") as told:
            for host in sorted(await hosts_meant(frontier, opts.host)) if opts.host else [None]:
                async for gone in dropping.drop(frontier, host, is_doomed):
                    deleted += gone
                    told(deleted)
        text = f"{counted(deleted, 'URL')} deleted; links do not bring them back, seeds do"
        show(opts, {"deleted": deleted}, f"{frontier.crawl}: {text}")
        return 0 if deleted else 1


def _check_host(given: str | None) -> None:
    try:
        if given is not None:
            hosts_named(given)
    except UrlError as error:
        raise ConfigError(f"--host {given}: {error}") from None


def _pattern(given: str | None) -> re.Pattern[str] | None:
    try:
        return re.compile(given) if given else None
    except re.error as error:
        raise ConfigError(f"--match {given}: not a regular expression: {error}") from None
