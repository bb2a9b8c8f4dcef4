"""`scrapy why site URL`: tells what became of a URL, and why."""

from __future__ import annotations

import argparse

from crawlproj.frontier.frontier import Frontier
from crawlproj.operate import why
from crawlproj.operate.command import FrontierCommand, show
from crawlproj.operate.look_up import look_up


class Command(FrontierCommand):
    arguments = "URL"
    most_arguments = 2
    summary = "Say what became of a URL: queued, delayed, leased, done, dead, filtered, never seen"

    def check(self, rest: list[str], opts: argparse.Namespace) -> None:
        if not rest:
            raise self.wrong_use("give a URL")

    async def work(self, frontier: Frontier, rest: list[str], opts: argparse.Namespace) -> int:
        assert self.settings is not None
        found = await look_up(frontier, self.settings, rest[0])
        told = {"url": rest[0], "state": found.state, "text": found.text, **found.details}
        show(opts, told, f"{rest[0]}: {found.text}")
        return 1 if found.state in (why.NEVER, "refused") else 0
