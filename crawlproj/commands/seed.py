"""`scrapy seed site URL… / -f FILE / -`: adds seeds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from scrapy.exceptions import UsageError

from crawlproj import keys
from crawlproj.commanding import FrontierCommand, show
from crawlproj.frontier.frontier import Frontier
from crawlproj.intake import LIST, SeedList, parse_seed
from crawlproj.urls import normalise


class Command(FrontierCommand):
    arguments = "URL… | -f FILE | -"
    most_arguments = None
    may_begin = True
    summary = "Add seeds to a crawl, before or while it runs"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("-f", "--file", help="read seeds from a file, one a line")

    async def work(self, frontier: Frontier, rest: list[str], opts: argparse.Namespace) -> int:
        given = _given(rest, opts.file)
        usable, refused = _sorted_out(given)
        for seed, reason in refused:
            print(f"refused: {seed}: {reason}", file=sys.stderr)
        new = await _new_ones(frontier, usable)
        if new:
            await frontier.client.lpush(keys.start_urls(frontier.crawl), *new)
        found = {"given": len(given), "new": len(new), "refused": len(refused)}
        known = len(given) - len(new) - len(refused)
        show(opts, found, f"{len(new)} new, {known} known already, {len(refused)} refused")
        return 1 if refused else 0


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


def _sorted_out(seeds: list[str]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """What can be used, by the URL that it stands for, and what cannot, with the reason."""
    usable: dict[str, str] = {}
    refused = []
    for seed in seeds:
        try:
            usable.setdefault(str(normalise(_url(seed))), seed)
        except (ValueError, TypeError) as error:
            refused.append((seed[:200], str(error)))
    return usable, refused


def _url(seed: str) -> str:
    return parse_seed(seed.encode()).url if seed.startswith("{") else seed


async def _new_ones(frontier: Frontier, seeds: dict[str, str]) -> list[str]:
    """Seeds that neither wait in the list nor belong to the crawl that runs."""
    waiting = await SeedList(frontier.client, keys.start_urls(frontier.crawl), LIST).peek()
    known, _ = _sorted_out([seed.decode(errors="replace") for seed in waiting])
    meta = await frontier.attach()
    new = {url: seed for url, seed in seeds.items() if url not in known}
    if not meta or meta["state"] == "finished":
        return list(new.values())
    return [seed for url, seed in new.items() if not await _is_taken(frontier, url)]


async def _is_taken(frontier: Frontier, url: str) -> bool:
    key = keys.seeds(frontier.crawl, frontier.shard_of(normalise(url).host).number)
    return bool(await frontier.client.sismember(key, url))
