"""`scrapy purge site --yes`: forgets the crawl. Nothing else ever does. `--finished` forgets all
that have finished."""

from __future__ import annotations

import argparse
import asyncio

from scrapy.exceptions import UsageError

from crawlproj.errors import ConfigError
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.refusals import CrawlDamaged
from crawlproj.operate import crawls, purge, status
from crawlproj.operate.command import FrontierCommand, connected, show
from crawlproj.operate.progress_line import progress
from crawlproj.plural import counted, plural
from crawlproj.worker import join


class Command(FrontierCommand):
    arguments = "--yes"
    summary = (
        "Delete a crawl's state and waiting seeds from Redis, or all finished ones'; files stay"
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--yes", action="store_true", help="yes, delete it")
        parser.add_argument(
            "--finished", action="store_true", help="all crawls that have finished; no name then"
        )

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        if not opts.finished:
            return super().act(args, opts)
        if args:
            raise ConfigError(f"{args[0]} --finished: give one crawl, or --finished, not both")
        return asyncio.run(self._purge_finished(opts))

    async def _purge_finished(self, opts: argparse.Namespace) -> int:
        async with connected(self.settings) as client:
            names = await purge.finished(client)
            listed = f"{counted(len(names), 'finished crawl')}: {', '.join(names)}"
            if names and not opts.yes:
                raise UsageError(f"this deletes what is known of {listed}; add --yes to do it")
            for name in names:
                await purge.purge_state(Frontier(client, name, ""))
        show(opts, {"purged": names}, f"forgotten: {listed}" if names else "no crawl has finished")
        return 0

    async def work(self, frontier: Frontier, rest: list[str], opts: argparse.Namespace) -> int:
        if not await crawls.is_known(frontier, await self._seeds_key(frontier)):
            show(opts, {"purged": False}, f"{frontier.crawl}: no such crawl in this Redis")
            return 1
        try:
            now = await status.read(frontier)
        except CrawlDamaged:
            if not opts.yes:
                raise
            return await self._purge_unread(frontier, opts)
        known = counted(now.discovered, "URL")
        if not opts.yes:
            raise UsageError(f"this deletes what is known of {known}; add --yes to do it")
        if now.alive and now.state not in status.OVER:
            at_it = f"{counted(now.alive, 'worker')} {plural(now.alive, 'is')} at it"
            text = f"{at_it}; scrapy stop {frontier.crawl} first"
            show(opts, {"purged": False}, f"{frontier.crawl}: {text}")
            return 1
        await self._purge(frontier)
        show(opts, {"purged": True}, f"{frontier.crawl}: forgotten ({known})")
        return 0

    async def _purge(self, frontier: Frontier) -> None:
        with progress() as watch:
            await purge.purge(frontier, await self._seeds_key(frontier), watch)

    async def _seeds_key(self, frontier: Frontier) -> str:
        assert self.settings is not None
        return (await join.seed_list_of(frontier.client, self.settings, frontier.crawl)).key

    async def _purge_unread(self, frontier: Frontier, opts: argparse.Namespace) -> int:
        """Forget a crawl whose plan cannot be read: no worker can be at work on it."""
        await frontier.attach_without_plan()
        await self._purge(frontier)
        show(opts, {"purged": True}, f"{frontier.crawl}: forgotten, though it could not be read")
        return 0
