"""`scrapy status site`: shows how the crawl stands; without a name, how all crawls do."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import partial

from scrapy.spiderloader import get_spider_loader

from crawlproj.frontier import history
from crawlproj.frontier.frontier import Frontier
from crawlproj.operate import crawls, status, status_view
from crawlproj.operate.command import FrontierCommand, connected, show
from crawlproj.operate.look_up import look_up
from crawlproj.operate.plain_text import is_terminal, printable
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
        what = "on a terminal a screen with keys; elsewhere print it until the crawl ends"
        parser.add_argument("--watch", action="store_true", help=what)

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
        read = partial(status.read, frontier, seeds, in_detail=True)
        if opts.watch and not opts.json and is_terminal(sys.stdout):
            now = await self._on_screen(frontier, read)
            print(printable(status_view.as_text(now)) if now and now.epoch else "")
            return 0
        while True:
            now = await read()
            text = status_view.as_text(now) if now.epoch else self._not_begun(now)
            show(opts, status.as_json(now), text)
            if not opts.watch or now.state in OVER:
                return 0 if now.epoch else 1
            await asyncio.sleep(REFRESH_S)

    async def _on_screen(
        self, frontier: Frontier, read: Callable[[], Awaitable[Status]]
    ) -> Status | None:
        # Late: Rich is for those who have a terminal.
        from crawlproj.operate.terminal.watch import Watch

        assert self.settings is not None
        beside = Frontier(frontier.client, frontier.crawl, frontier.worker)

        async def why_of(url: str) -> str:
            assert self.settings is not None
            return f"{url}: {(await look_up(beside, self.settings, url)).text}"

        return await Watch(beside, read, partial(history.read, frontier), why_of).run()

    def _not_begun(self, now: Status) -> str:
        waits = "waits" if now.seeds_waiting == 1 else "wait"
        seeds = f"{counted(now.seeds_waiting, 'seed')} {waits}"
        assert self.settings is not None
        spiders = get_spider_loader(self.settings).list()
        start = f"scrapy crawl {now.crawl}"
        if now.crawl not in spiders:  # nobody knows yet by which of them it will be crawled
            spider = spiders[0] if len(spiders) == 1 else "SPIDER"
            start = f"scrapy crawl {spider} -a crawl={now.crawl}"
        return f"{now.crawl}: not begun yet, {seeds}; start it with {start}"
