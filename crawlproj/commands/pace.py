"""`scrapy pace site HOST --delay 2`: changes how a host is treated while the crawl runs."""

from __future__ import annotations

import argparse
import json
from typing import Any

from crawlproj.errors import ConfigError
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.pacing import Overrides, normal_host
from crawlproj.operate.command import FrontierCommand, show

_TRUTH = {"yes": True, "no": False}


class Command(FrontierCommand):
    arguments = "[HOST [--delay S] [--per-host N] [--obey-robots yes|no] | HOST --reset]"
    most_arguments = 2
    summary = "Show or change how hosts are treated, while the crawl runs"

    def long_desc(self) -> str:
        return (
            "Gives a host a delay or a number of connections of its own, in all workers, without a "
            "restart: they hear of it within a heartbeat, and it lasts as long as the crawl. HOST "
            "is a name as in POLITENESS_OVERRIDES: example.com, example.com:8080, *.example.com or "
            "*. Without HOST it shows what has been changed."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--delay", metavar="S", type=float, help="seconds between requests")
        parser.add_argument("--per-host", metavar="N", type=int, help="connections at a time")
        parser.add_argument("--obey-robots", choices=_TRUTH, help="whether robots.txt is asked")
        parser.add_argument("--reset", action="store_true", help="take back what was changed")

    def check(self, rest: list[str], opts: argparse.Namespace) -> None:
        values = _values(opts)
        if not rest and (values or opts.reset):
            raise self.wrong_use("give a host")
        if values and opts.reset:
            raise self.wrong_use("--reset stands alone")
        if rest:
            _checked(rest[0], values)

    async def work(self, frontier: Frontier, rest: list[str], opts: argparse.Namespace) -> int:
        values = _values(opts)
        host = _checked(rest[0], values) if rest else ""
        if not await frontier.attach():
            show(opts, {}, f"{frontier.crawl}: there is no such crawl")
            return 1
        if values or opts.reset:
            await frontier.change_pace(host, None if opts.reset else values)
        changed = await frontier.paces()
        shown = {host: changed.get(host, {})} if host else changed
        show(opts, shown, "\n".join(_lines(frontier.crawl, shown)))
        return 0


def _values(opts: argparse.Namespace) -> dict[str, Any]:
    robots = _TRUTH.get(opts.obey_robots)
    given = {"delay": opts.delay, "per_host": opts.per_host, "obey_robots": robots}
    return {name: value for name, value in given.items() if value is not None}


def _checked(host: str, values: dict[str, Any]) -> str:
    try:
        Overrides({host: values})
        return normal_host(host)
    except ConfigError as error:
        raise ConfigError(str(error).removeprefix("POLITENESS_OVERRIDES: ")) from None


def _lines(crawl: str, changed: dict[str, dict[str, Any]]) -> list[str]:
    if not any(changed.values()):
        return [f"{crawl}: {' '.join(changed) or 'every host'} is treated as configured"]
    return [
        f"{crawl}: {host} has "
        + ", ".join(f"{name} {json.dumps(value)}" for name, value in sorted(values.items()))
        for host, values in sorted(changed.items())
    ]
