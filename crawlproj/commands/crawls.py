"""`scrapy crawls`: the crawls that this Redis knows."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from crawlproj.operate import crawls
from crawlproj.operate.command import ProjectCommand, connected, offer_json, show
from crawlproj.operate.crawls import Crawl
from crawlproj.operate.table import table

UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


class Command(ProjectCommand):
    most_arguments = 0
    summary = "List the crawls that this Redis knows, with state, pages and age"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        offer_json(parser)

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        found = asyncio.run(self._read())
        show(opts, [one._asdict() for one in found], as_text(found))
        return 0 if found else 1

    async def _read(self) -> list[Crawl]:
        async with connected(self.settings) as client:
            return [await crawls.read(client, name) for name in await crawls.names(client)]


def as_text(found: Sequence[Crawl]) -> str:
    """The list for a terminal."""
    if not found:
        return "no crawl: scrapy crawl site -a seeds=https://example.com begins one"
    head = ("crawl", "spider", "state", "pages", "queued", "dead", "workers", "begun")
    return "\n".join(table(head, [_row(one) for one in found], numbers=range(3, 7)))


def _row(one: Crawl) -> tuple[str, ...]:
    numbers = (one.pages, one.queued, one.dead, one.workers)
    return (one.crawl, one.spider, one.state, *(f"{n:,}" for n in numbers), _age(one.age_s))


def _age(age_s: float | None) -> str:
    """In the largest unit of which there is one."""
    if age_s is None:
        return ""
    for unit, seconds in UNITS:
        if age_s >= seconds:
            return f"{age_s / seconds:.0f} {unit} ago"
    return "just now"
