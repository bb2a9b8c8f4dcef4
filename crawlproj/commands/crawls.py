"""`scrapy crawls`: lists the crawls that this Redis knows."""

from __future__ import annotations

import argparse
import asyncio

from crawlproj.operate import crawls
from crawlproj.operate.command import ProjectCommand, connected, offer_json, show
from crawlproj.operate.crawls import Crawl
from crawlproj.operate.project_spiders import how_to_begin


class Command(ProjectCommand):
    most_arguments = 0
    summary = "List the crawls that this Redis knows, with state, pages and age"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        offer_json(parser)

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        assert self.settings is not None
        found = asyncio.run(self._read())
        none = "" if found else f"no crawl: {how_to_begin(self.settings)} begins one"
        show(opts, [one._asdict() for one in found], none or crawls.as_text(found))
        return 0 if found else 1

    async def _read(self) -> list[Crawl]:
        async with connected(self.settings) as client:
            return [await crawls.read(client, name) for name in await crawls.names(client)]
