"""`scrapy drain site WORKER…`: takes workers out of service; others go on."""

from __future__ import annotations

import argparse

from crawlproj.frontier.frontier import Frontier
from crawlproj.operate import draining
from crawlproj.operate.command import FrontierCommand, show


class Command(FrontierCommand):
    arguments = "WORKER… | --machine NAME"
    most_arguments = None
    summary = "Have workers finish what they hold and leave, while others go on"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--machine", metavar="NAME", help="all workers of this machine")

    def check(self, rest: list[str], opts: argparse.Namespace) -> None:
        if bool(rest) == bool(opts.machine):
            raise self.wrong_use("name the workers, as scrapy status shows them, or a machine")

    async def work(self, frontier: Frontier, rest: list[str], opts: argparse.Namespace) -> int:
        asked = await draining.drain(frontier, set(rest), opts.machine)
        missing = sorted(set(rest) - set(asked))
        lines = [f"{name}: takes no more, hands in what it holds, and leaves" for name in asked]
        lines += [f"{name}: no such worker is at it (scrapy status)" for name in missing]
        none = f"no worker of {opts.machine} is at it" if not lines else ""
        show(opts, {"draining": asked, "missing": missing}, "\n".join(lines) or none)
        return 1 if missing or not asked else 0
