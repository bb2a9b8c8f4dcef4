"""`scrapy seed site URL… / -f FILE / -`: adds seeds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from scrapy import Request
from scrapy.exceptions import UsageError
from scrapy.spiderloader import get_spider_loader

from crawlproj.config import Config
from crawlproj.discover.seeds import parse_seed
from crawlproj.dupefilter import SeenFilter
from crawlproj.errors import ConfigError
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.records import Address
from crawlproj.operate import crawls
from crawlproj.operate.command import FrontierCommand, show
from crawlproj.urls import normalise
from crawlproj.worker import join


class Command(FrontierCommand):
    arguments = "URL… | -f FILE | - [--new]"
    most_arguments = None
    may_begin = True
    summary = "Add seeds to a crawl, before or while it runs"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("-f", "--file", help="read seeds from a file, one a line")
        parser.add_argument(
            "--new", action="store_true", help="for a crawl of this name that is yet to begin"
        )

    async def work(self, frontier: Frontier, rest: list[str], opts: argparse.Namespace) -> int:
        assert self.settings is not None
        given = _given(rest, opts.file)
        seeds = await join.seed_list_of(frontier.client, self.settings, frontier.crawl)
        if not opts.new:
            await self._refuse_misspelt(frontier, seeds.key)
        meta = await _running(frontier)
        own = join.own_settings(self.settings, frontier.crawl)
        identity = join.Identity.of_crawl(meta, Config.from_settings(own))
        requests = SeenFilter.of_project(own, identity)
        usable, refused = _sorted_out(given, requests, identity)
        for seed, reason in refused:
            print(f"refused: {seed}: {reason}", file=sys.stderr)
        texts = [one.decode(errors="replace") for one in await seeds.peek()]
        waiting, _ = _sorted_out(texts, requests, identity)
        new = [
            seed
            for address, seed in usable.items()
            if address not in waiting
            and not (meta and await frontier.has_taken(address.host, address.key))
        ]
        if new:
            await seeds.add(new)
        found = {"given": len(given), "new": len(new), "refused": len(refused)}
        known = len(given) - len(new) - len(refused)
        show(opts, found, f"{len(new)} new, {known} known already, {len(refused)} refused")
        return 1 if refused else 0

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


def _given(urls: list[str], file: str | None) -> list[str]:
    if file and urls:
        raise UsageError("give URLs or -f FILE, not both")
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
        raise UsageError("give at least one URL, or -f FILE, or - for standard input")
    return seeds


def _sorted_out(
    seeds: Iterable[str], requests: SeenFilter, identity: join.Identity
) -> tuple[dict[Address, str], list[tuple[str, str]]]:
    """What can be used, by the request that it stands for, and what cannot, with the reason."""
    usable: dict[Address, str] = {}
    refused = []
    for seed in seeds:
        try:
            usable.setdefault(requests.address(_request(seed, identity)), seed)
        except (ValueError, TypeError) as error:
            refused.append((seed[:200], str(error)))
    return usable, refused


def _request(seed: str, identity: join.Identity) -> Request:
    """As a spider makes it of a seed: `site` of its URL in the crawl's one form."""
    if not seed.startswith("{"):
        normal = str(normalise(seed, drop=identity.drop))
        return Request(normal if identity.by_url else seed)
    request = parse_seed(seed.encode())
    normal = str(normalise(request.url, drop=identity.drop))
    return request.replace(url=normal) if identity.by_url else request


async def _running(frontier: Frontier) -> dict[str, str]:
    """The META of the crawl that seeds given now would belong to, empty if it has not begun."""
    meta = await frontier.attach()
    return meta if meta and meta["state"] != "finished" else {}
