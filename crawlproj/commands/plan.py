"""`scrapy plan --pages 1e9 --hosts 1e7`: tells what a crawl of that size needs, as measured."""

from __future__ import annotations

import argparse
import math

from crawlproj.operate.capacity import Demand, Measured, as_json, as_text, needs
from crawlproj.operate.command import ProjectCommand, offer_json, show


class Command(ProjectCommand):
    arguments = "--pages N --hosts N [--delay S] [--days D | --workers N] [--page-kb KB] …"
    most_arguments = 0
    summary = "Say what a crawl of a given size needs: Redis memory, shards, workers, days, disk"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        offer_json(parser)
        add = parser.add_argument
        add("--pages", type=_count, required=True, help="to fetch, such as 1e9")
        add("--hosts", type=_count, required=True, help="that they are on, such as 1e7")
        add("--found", type=_count, default=0, help="URLs known in the end (twice the pages)")
        add("--delay", type=_amount, default=1.0, help="pause of a host, seconds (1)")
        add("--response", type=_amount, default=0.5, help="time a response takes, seconds (0.5)")
        add("--page-kb", type=_amount, default=50.0, help="size of a page (50)")
        add("--connections", type=_count, default=64, help="CONCURRENT_REQUESTS of a worker (64)")
        add("--days", type=_amount, default=30.0, help="to be done in, if nothing forbids (30)")
        add("--workers", type=_count, default=0, help="there are, instead of --days")
        add("--redis-gb", type=_amount, default=16.0, help="memory of a Redis server (16)")
        add("--error-rate", type=_share, default=0.001, help="of the seen filter (0.001)")
        add("--no-referer", action="store_true", help="where pages were found is not kept")

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        demand = Demand(
            pages=opts.pages,
            hosts=opts.hosts,
            delay_s=opts.delay,
            response_s=opts.response,
            page_kb=opts.page_kb,
            connections=opts.connections,
            found=opts.found,
            days=opts.days,
            workers=opts.workers,
            redis_gb=opts.redis_gb,
            keeps_referer=not opts.no_referer,
            error_rate=opts.error_rate,
        )
        made = needs(demand, Measured.shipped())
        show(opts, as_json(made), as_text(demand, made))
        return 0


def _number(text: str) -> float:
    """The number; NaN for what is none, or is infinite."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def _amount(text: str) -> float:
    value = _number(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text}: give a number, such as 0.5 or 1e3")
    return value


def _count(text: str) -> int:
    value = _number(text)
    if not value >= 1 or value % 1:
        raise argparse.ArgumentTypeError(f"{text}: give a whole number above 0, such as 100 or 1e9")
    return int(value)


def _share(text: str) -> float:
    value = _number(text)
    if not 0 < value < 0.5:
        raise argparse.ArgumentTypeError(f"{text}: give a share between 0 and 0.5, such as 0.001")
    return value
