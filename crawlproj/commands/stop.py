"""`scrapy stop site`: has all workers, everywhere, finish what they hold and leave."""

from __future__ import annotations

import argparse

from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.operate.command import FrontierCommand, show
from crawlproj.plural import counted


class Command(FrontierCommand):
    summary = "Stop a crawl gracefully, on all machines; starting it again resumes it"

    async def work(self, frontier: Frontier, rest: list[str], opts: argparse.Namespace) -> int:
        if not await frontier.attach():
            show(opts, {"state": "empty"}, f"{frontier.crawl}: there is nothing to stop")
            return 1
        state = await frontier.set_state("stopping", ["running", "paused", "stopping"])
        texts = {
            "stopping": "workers finish what they hold and leave",
            "stopped": "stopped; no worker was running",
            "finished": "it has finished already",
        }
        waiting = await _waiting(frontier) if state == "finished" else 0
        if waiting:
            await frontier.dismiss()
            texts[state] += f"; {counted(waiting, 'worker')} that waited for seeds leave"
        show(opts, {"state": state}, f"{frontier.crawl}: {texts[state]}")
        return 1 if state == "finished" and not waiting else 0


async def _waiting(frontier: Frontier) -> int:
    """How many workers wait, after the crawl has finished, for the next one to begin."""
    now_ms = await frontier.shards[0].now_ms()
    return int(await frontier.client.zcount(keys.workers(frontier.crawl, 0), now_ms, "inf"))
