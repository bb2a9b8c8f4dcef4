"""`scrapy resume site`: lets workers go on after `scrapy pause`."""

from __future__ import annotations

import argparse

from crawlproj.frontier.frontier import Frontier
from crawlproj.operate import status
from crawlproj.operate.command import FrontierCommand, show
from crawlproj.operate.crawls import set_state, start_command


class Command(FrontierCommand):
    summary = "Go on with a paused crawl"

    async def work(self, frontier: Frontier, rest: list[str], opts: argparse.Namespace) -> int:
        state = await set_state(frontier, "running", ["paused", "running"])
        running = state == "running"
        workers = (await status.read(frontier)).alive
        text = "running" if running else f"cannot be resumed: it is {state}"
        if running and not workers:
            text = "no longer paused, and no worker is running"
        if state == "stopped" or (running and not workers):
            text += f"; start workers with {await start_command(frontier)}"
        show(opts, {"state": state, "workers": workers}, f"{frontier.crawl}: {text}")
        return 0 if running else 1
