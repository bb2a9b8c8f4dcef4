"""`scrapy seed site URL… / -f FILE / -`: adds seeds."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from scrapy.exceptions import UsageError

from crawlproj import keys
from crawlproj.commanding import FrontierCommand, show
from crawlproj.frontier.frontier import Frontier
from crawlproj.intake import LIST, SeedList
from crawlproj.urls import UrlError, normalise


class Command(FrontierCommand):
    arguments = "URL… | -f FILE | -"
    most_arguments = None
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
        known = len(usable) - len(new)
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
        raise UsageError(f"{file}: cannot be read: {error}") from None
    seeds = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not seeds:
        raise UsageError("give at least one URL, or -f FILE, or - for standard input")
    return list(dict.fromkeys(seeds))


def _sorted_out(seeds: list[str]) -> tuple[list[str], list[tuple[str, str]]]:
    usable, refused = [], []
    for seed in seeds:
        try:
            url = json.loads(seed)["url"] if seed.startswith("{") else seed
            normalise(url)
            usable.append(seed)
        except (UrlError, ValueError, KeyError, TypeError) as error:
            refused.append((seed[:200], str(error)))
    return usable, refused


async def _new_ones(frontier: Frontier, seeds: list[str]) -> list[str]:
    """Seeds that neither wait in the list nor belong to the crawl that runs."""
    waiting = await SeedList(frontier.client, keys.start_urls(frontier.crawl), LIST).peek(0)
    known = {seed.decode(errors="replace") for seed in waiting}
    meta = await frontier.attach()
    new = [seed for seed in seeds if seed not in known]
    if not meta or meta["state"] == "finished":
        return new
    return [seed for seed in new if seed.startswith("{") or not await _is_taken(frontier, seed)]


async def _is_taken(frontier: Frontier, seed: str) -> bool:
    url = normalise(seed)
    key = keys.seeds(frontier.crawl, frontier.shard_of(url.host).number)
    return bool(await frontier.client.sismember(key, str(url)))
