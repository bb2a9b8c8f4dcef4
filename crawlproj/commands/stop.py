"""`scrapy stop site`: all workers, everywhere, finish what they hold and leave."""

from __future__ import annotations

import argparse

from crawlproj.frontier.frontier import Frontier
from crawlproj.operate.command import FrontierCommand, show


class Command(FrontierCommand):
    summary = "Stop a crawl gracefully, on all machines; starting it again resumes it"

    async def work(self, frontier: Frontier, rest: list[str], opts: argparse.Namespace) -> int:
        if not await frontier.attach():
            show(opts, {"state": "empty"}, f"{frontier.crawl}: there is nothing to stop")
            return 1
        state = await frontier.control("stopping", ["running", "paused", "stopping"])
        texts = {
            "stopping": "workers finish what they hold and leave",
            "stopped": "stopped; no worker was running",
            "finished": "it has finished already",
        }
        show(opts, {"state": state}, f"{frontier.crawl}: {texts[state]}")
        return 1 if state == "finished" else 0
