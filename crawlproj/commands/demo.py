"""`scrapy demo`: crawls the bundled demo web, so that the first run needs no network."""

from __future__ import annotations

import argparse
import subprocess
import sys

from crawlproj.commanding import ProjectCommand
from crawlproj.demo import DemoError, DemoServer, WebSpec
from crawlproj.errors import ConfigError


class Command(ProjectCommand):
    arguments = "[--hosts N] [--pages N] [-n WORKERS]"
    most_arguments = 0
    summary = "Crawl the bundled demo web, on this machine alone"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--hosts", type=int, default=40, help="hosts of the demo web (40)")
        parser.add_argument("--pages", type=int, default=600, help="pages of the demo web (600)")
        parser.add_argument("--seed", type=int, default=1, help="number it is made from (1)")
        parser.add_argument("-n", "--workers", type=int, default=2, help="workers (2)")

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        try:
            spec = WebSpec(seed=opts.seed, hosts=opts.hosts, pages=opts.pages)
            with DemoServer(spec) as web:
                print(f"A web of {opts.hosts} hosts is at {web.seeds[0]} while this runs.")
                return _crawl(web.seeds[0], opts.workers)
        except DemoError as error:
            raise ConfigError(str(error)) from None


def _crawl(seed: str, workers: int) -> int:
    scrapy = [sys.executable, "-m", "scrapy"]
    fleet = ["fleet", "site", "-n", str(workers), "-a", f"seeds={seed}", "-a", "scope=any"]
    code = subprocess.call([*scrapy, *fleet])
    return code or subprocess.call([*scrapy, "merge", "site"])
