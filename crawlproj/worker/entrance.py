"""How Requests and seeds come into a crawl: the way of Requests, and the intake of what users
push."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from crawlproj.config import Config
from crawlproj.discover.seeds import SeedIntake, SeedList, seed_maker
from crawlproj.fetch.cookies import cookie_advice
from crawlproj.frontier.proxies import Proxies
from crawlproj.worker import join
from crawlproj.worker.exchange import Worker
from crawlproj.worker.loops import Loops
from crawlproj.worker.process import WorkerProcess
from crawlproj.worker.requests import Requests
from crawlproj.worker.tracking import Tracking

TAKES_SEEDS = ("running", "paused", "limit")
"""States of a crawl in which seeds are taken in."""


@dataclass(frozen=True, slots=True)
class Entrance:
    """Of one worker."""

    requests: Requests
    proxies: Proxies
    seeds: SeedList
    intake: SeedIntake
    loops: Loops

    def open(self) -> None:
        """Take in what users push from now on."""
        self.loops.start(self.intake.run)

    async def close(self) -> None:
        """Leave in their list the seeds that have not been taken in."""
        await self.loops.end()


def make_entrance(
    process: WorkerProcess,
    config: Config,
    worker: Worker,
    tracking: Tracking,
    queue_robots_txt: Callable[[str], None],
) -> Entrance:
    """By the crawl's plan; `queue_robots_txt` is told of the hosts of Requests."""
    spider, settings, plan = process.spider, process.crawler.settings, process.frontier.plan
    process.seen.attach(worker, join.Identity.of(plan))
    proxies = Proxies(config.proxies)
    requests = Requests(
        spider,
        worker,
        tracking,
        process.seen,
        proxies=proxies,
        queue_robots_txt=queue_robots_txt,
        max_record_bytes=config.max_record_bytes,
        cookie_advice="" if plan.cookies else cookie_advice(settings),
    )
    seeds = join.seed_list(process.frontier.client, settings, spider, process.frontier.crawl)
    intake = SeedIntake(
        seeds,
        seed_maker(spider),
        requests.seed,
        worker.push_now,
        lambda: worker.state in TAKES_SEEDS,
    )
    return Entrance(requests, proxies, seeds, intake, Loops(worker.hooks.give_up))
