"""What `scrapy change` and its other name, `scrapy set`, do."""

from __future__ import annotations

import argparse

from crawlproj.frontier.frontier import Frontier
from crawlproj.operate.command import FrontierCommand, show
from crawlproj.worker import replan


class ChangeCommand(FrontierCommand):
    arguments = "[NAME=VALUE…]"
    most_arguments = None
    summary = "Show or change a crawl's budgets, depth, time, pace and scope, while it goes on"

    def long_desc(self) -> str:
        return (
            f"Changes {', '.join(replan.FIELDS)} of a crawl that runs, is paused or stopped, "
            "for all workers: they hear of it within a heartbeat. Budgets and depth can be raised; "
            "minutes count from now; what is queued stays queued. Without NAME=VALUE it shows what "
            "the crawl goes by."
        )

    def check(self, rest: list[str], opts: argparse.Namespace) -> None:
        replan.parse(rest)

    async def work(self, frontier: Frontier, rest: list[str], opts: argparse.Namespace) -> int:
        wanted = replan.parse(rest)
        if wanted:
            now = await replan.change(frontier, wanted)
        elif await frontier.attach():
            now = replan.changeable(frontier.plan)
        else:
            show(opts, {}, f"{frontier.crawl}: there is no such crawl")
            return 1
        show(opts, now, f"{frontier.crawl}: {replan.as_text(now)}")
        return 0
