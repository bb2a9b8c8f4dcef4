"""`scrapy demo`: crawls the bundled demo web, so that the first run needs no network."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import signal
import subprocess
import sys

from crawlproj.config import Config
from crawlproj.demo import DemoError, DemoServer, WebSpec
from crawlproj.errors import ConfigError
from crawlproj.frontier.frontier import Frontier
from crawlproj.operate import purge
from crawlproj.operate.command import ProjectCommand, connected
from crawlproj.operate.project_spiders import SITE, require_site
from crawlproj.operate.starting import small_filter

SPIDER, CRAWL = SITE, "demo"
RUN = "demo-"
"""How the runs of a demo are called, so that its crawl is known again."""


class Command(ProjectCommand):
    arguments = "[--hosts N] [--pages N] [-n WORKERS]"
    most_arguments = 0
    summary = "Crawl the bundled demo web, on this machine alone, as the crawl named demo"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--hosts", type=int, default=40, help="hosts of the demo web (40)")
        parser.add_argument("--pages", type=int, default=600, help="pages of the demo web (600)")
        parser.add_argument("--seed", type=int, default=1, help="number it is made from (1)")
        parser.add_argument("-n", "--workers", type=int, default=2, help="workers (2)")

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        assert self.settings is not None
        require_site(self.settings, "scrapy demo")
        try:
            spec = WebSpec(seed=opts.seed, hosts=opts.hosts, pages=opts.pages)
            asyncio.run(self._clear())
            with DemoServer(spec) as web:
                print(f"A web of {opts.hosts} hosts is at {web.seeds[0]} while this runs.")
                return self._crawl(web.seeds[0], opts)
        except DemoError as error:
            raise ConfigError(str(error)) from None

    def _crawl(self, seed: str, opts: argparse.Namespace) -> int:
        assert self.settings is not None
        own = [word for given in opts.set for word in ("-s", given)]
        given = {"crawl": CRAWL, "seeds": seed, "scope": "any", "links": "true"}
        fleet = ["fleet", SPIDER, "-n", str(opts.workers)]
        for name, value in given.items():
            fleet += ["-a", f"{name}={value}"]
        # Each of its hosts has an address, and the seed opens its own alone.
        ours = ["-s", "CRAWL_ALLOW_ADDRESSES=loopback", *small_filter(self.settings)]
        code = _call(*fleet, *ours, *own, "-s", f"CRAWL_RUN_ID={RUN}{secrets.token_hex(8)}")
        if code:
            folder = Config.from_settings(self.settings).folder_of(CRAWL)
            print(
                f"What was written until then is in {folder}; scrapy merge {CRAWL} puts it together"
            )
            return code
        return _call("merge", CRAWL, *own) or _call("report", CRAWL, *own)

    async def _clear(self) -> None:
        """Forget a demo that was interrupted, since its web is gone; never a crawl of your own."""
        async with connected(self.settings, may_begin=True) as client:
            frontier = Frontier(client, CRAWL, "")
            meta = await frontier.attach()
            if not meta or meta["state"] == "finished":
                return
            if any(not run.startswith(RUN) for run in meta["runs"].split()):
                raise ConfigError(
                    f"{CRAWL} is a crawl of yours that is not finished: scrapy crawl {SPIDER} -a "
                    f"crawl={CRAWL} goes on with it, scrapy purge {CRAWL} --yes forgets it, and "
                    "then there is room for the demo"
                )
            await purge.purge(frontier)


def _call(*words: str) -> int:
    """Run a scrapy command. Ctrl-C is for it to deal with: it gets the signal too."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.call([sys.executable, "-m", "scrapy", *words])
    finally:
        signal.signal(signal.SIGINT, before)
