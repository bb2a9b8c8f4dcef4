"""`scrapy status site`: shows how the crawl stands; without a name, how all crawls do."""

from __future__ import annotations

import argparse
import asyncio
import sys

from crawlproj.frontier.frontier import Frontier
from crawlproj.operate import crawls, status, status_view
from crawlproj.operate.command import FrontierCommand, connected, show
from crawlproj.operate.status import OVER, Status
from crawlproj.plural import counted
from crawlproj.worker import join

REFRESH_S = 1.0


class Command(FrontierCommand):
    arguments = "[--watch]"
    summary = "Show the ledger, the workers and the health of a crawl; without a name, all crawls"

    def syntax(self) -> str:
        return "[<crawl>] [--watch]"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--watch", action="store_true", help="refresh until the crawl ends")

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        return super().act(args, opts) if args else asyncio.run(self._all(opts))

    async def _all(self, opts: argparse.Namespace) -> int:
        async with connected(self.settings) as client:
            names = await crawls.names(client)
            if opts.json:
                found = [await status.read(Frontier(client, name, "")) for name in names]
                show(opts, [status.as_json(one) for one in found], "")
            else:
                print(crawls.as_text([await crawls.read(client, name) for name in names]))
        return 0 if names else 1

    async def work(self, frontier: Frontier, rest: list[str], opts: argparse.Namespace) -> int:
        assert self.settings is not None
        seeds = await join.seed_list_of(frontier.client, self.settings, frontier.crawl)
        while True:
            now = await status.read(frontier, seeds, in_detail=True)
            text = status_view.as_text(now) if now.epoch else await _not_begun(frontier, now)
            if opts.watch and sys.stdout.isatty():
                print("\033[2J\033[H", end="")
            show(opts, status.as_json(now), text)
            if not opts.watch or now.state in OVER:
                return 0 if now.epoch else 1
            await asyncio.sleep(REFRESH_S)


async def _not_begun(frontier: Frontier, now: Status) -> str:
    seeds = counted(now.seeds_waiting, "seed") + (" waits" if now.seeds_waiting == 1 else " wait")
    start = await crawls.start_command(frontier)
    return f"{now.crawl}: not begun yet, {seeds}; start it with {start}"
