"""`scrapy seed site URL… / -f FILE / - / --search … / --sitemap … / --feed …`: adds seeds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from scrapy.exceptions import UsageError
from scrapy.spiderloader import get_spider_loader

from crawlproj.config import Config
from crawlproj.discover.search_engines import DEFAULT, ENGINES, Engine, engine
from crawlproj.errors import ConfigError
from crawlproj.fetch.documents import Documents
from crawlproj.frontier.frontier import Frontier
from crawlproj.operate import crawls
from crawlproj.operate.command import FrontierCommand, print_error, show
from crawlproj.operate.seed_sources import MOST_SEEDS, Source
from crawlproj.operate.seeding import SeedAdder
from crawlproj.worker import join

RESULTS = 10
"""Of a search, unless a number is given: about what the first page of an engine has."""


class Command(FrontierCommand):
    arguments = "URL… | -f FILE | - | --search WORDS | --sitemap URL | --feed URL"
    most_arguments = None
    may_begin = True
    summary = "Add seeds to a crawl, before or while it runs"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("-f", "--file", help="read seeds from a file, one a line")
        parser.add_argument("--search", metavar="WORDS", help="seeds are the results of a search")
        parser.add_argument(
            "--engine",
            help=f"of the search: {', '.join(ENGINES)}, or the dotted path of a class of your own",
        )
        parser.add_argument(
            "--results",
            type=_count,
            metavar="N",
            help=f"at most so many seeds; of a search {RESULTS} unless given",
        )
        parser.add_argument("--sitemap", metavar="URL", help="seeds are the pages of a sitemap")
        parser.add_argument("--feed", metavar="URL", help="seeds are the pages of a feed")
        parser.add_argument(
            "--new", action="store_true", help="for a crawl of this name that is yet to begin"
        )

    def check(self, rest: list[str], opts: argparse.Namespace) -> None:
        given = {"URLs": rest, "-f FILE": opts.file, "--search": opts.search}
        given |= {"--sitemap": opts.sitemap, "--feed": opts.feed}
        ways = [name for name, value in given.items() if value]
        if len(ways) > 1:
            raise UsageError(f"give {' or '.join(ways)}, not both")
        if opts.engine and not opts.search:
            raise UsageError("--engine goes with --search")
        if opts.results and ways in (["URLs"], ["-f FILE"]):
            raise UsageError("--results goes with --search, --sitemap or --feed")

    async def work(self, frontier: Frontier, rest: list[str], opts: argparse.Namespace) -> int:
        assert self.settings is not None
        seeds = await join.seed_list_of(frontier.client, self.settings, frontier.crawl)
        if not opts.new:
            await self._refuse_misspelt(frontier, seeds.key)
        adding = await SeedAdder.begin(frontier, seeds, self.settings)
        if opts.search or opts.sitemap or opts.feed:
            left_out = await self._add_found(adding, opts)
        else:
            left_out = []
            await adding.add(_given(rest, opts.file), lambda _: True)
        for part in left_out:
            print_error(f"left out: {part}")
        found = {"given": adding.given, "new": adding.new, "refused": adding.refused}
        known = adding.given - adding.new - adding.refused
        show(opts, found, f"{adding.new} new, {known} known already, {adding.refused} refused")
        return 1 if adding.refused or left_out else 0

    async def _add_found(self, adding: SeedAdder, opts: argparse.Namespace) -> list[str]:
        """Add what a source names as it is read; returns what of it could not be had."""
        assert self.settings is not None
        async with Documents(self.settings) as documents:
            source = Source(documents, opts.results or (RESULTS if opts.search else MOST_SEEDS))
            if opts.search:
                batches = source.search(self._engine(opts.engine), opts.search)
            elif opts.sitemap:
                batches = source.sitemap(opts.sitemap)
            else:
                batches = source.feed(opts.feed)
            async for batch in batches:
                await adding.add(batch, documents.is_named_by_user)
        return source.left_out

    def _engine(self, name: str | None) -> Engine:
        assert self.settings is not None
        return engine(name or DEFAULT, Config.from_settings(self.settings).search_url)

    async def _refuse_misspelt(self, frontier: Frontier, seeds_key: str) -> None:
        """Raise ConfigError for a name that neither a crawl nor a spider has: seeds would wait
        where no worker ever looks."""
        assert self.settings is not None
        spiders, crawl = get_spider_loader(self.settings).list(), frontier.crawl
        if crawl in spiders or await crawls.is_known(frontier, seeds_key):
            return
        raise ConfigError(
            f"{crawl}: neither a crawl in this Redis nor a spider of this project; add --new for "
            f"one that is yet to begin (-a crawl={crawl}){crawls.nearest(crawl, spiders)}"
        )


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_SEEDS:
        raise argparse.ArgumentTypeError(f"{text}: give a whole number, 1 to {MOST_SEEDS:,}")
    return int(text)


def _given(urls: list[str], file: str | None) -> list[str]:
    try:
        lines: Iterable[str] = urls
        if file:
            lines = Path(file).read_text(encoding="utf-8").splitlines()
        elif urls == ["-"]:
            lines = sys.stdin.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file or 'standard input'}: cannot be read: {error}") from None
    seeds = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not seeds:
        raise UsageError(
            "give at least one URL, or -f FILE, or - for standard input, or --search, --sitemap or "
            "--feed"
        )
    return seeds
