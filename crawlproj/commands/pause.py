"""`scrapy pause site`: keeps all workers from beginning another page, until `scrapy resume`."""

from __future__ import annotations

import argparse

from crawlproj.frontier.frontier import Frontier
from crawlproj.operate.command import FrontierCommand, show
from crawlproj.operate.crawls import set_state


class Command(FrontierCommand):
    summary = "Pause a crawl on all machines; workers stay and wait"

    async def work(self, frontier: Frontier, rest: list[str], opts: argparse.Namespace) -> int:
        state = await set_state(frontier, "paused", ["running", "paused"])
        paused = state == "paused"
        text = "paused; go on with scrapy resume" if paused else f"cannot be paused: it is {state}"
        show(opts, {"state": state}, f"{frontier.crawl}: {text}")
        return 0 if paused else 1
