"""`scrapy why site URL`: tells what became of a URL, and why."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from scrapy import Request

from crawlproj.config import Config
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.plan import Plan
from crawlproj.operate import why
from crawlproj.operate.command import FrontierCommand, show
from crawlproj.politeness import kept_verdict
from crawlproj.politeness.stage import user_agent_of
from crawlproj.worker import join
from crawlproj.worker.seen_filter import SeenFilter


class Command(FrontierCommand):
    arguments = "URL"
    most_arguments = 2
    summary = "Say what became of a URL: queued, delayed, leased, done, dead, filtered, never seen"

    def check(self, rest: list[str], opts: argparse.Namespace) -> None:
        if not rest:
            raise self.wrong_use("give a URL")

    async def work(self, frontier: Frontier, rest: list[str], opts: argparse.Namespace) -> int:
        assert self.settings is not None
        config = Config.from_settings(self.settings)
        begun = await frontier.attach()
        identity = join.Identity.of(frontier.plan if begun else Plan.of(config))
        requests = SeenFilter.of_project(self.settings, identity)
        folder = Path(config.output) / frontier.crawl
        found = await why.trace(
            frontier,
            rest[0],
            folder,
            identity.drop,
            key_of=lambda url: requests.address(Request(url)).key,
            refusal_of=partial(kept_verdict.refusal, frontier, user_agent_of(self.settings)),
        )
        told = {"url": rest[0], "state": found.state, "text": found.text, **found.details}
        show(opts, told, f"{rest[0]}: {found.text}")
        return 1 if found.state in (why.NEVER, "refused") else 0
