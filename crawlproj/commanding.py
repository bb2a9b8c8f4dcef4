"""What our commands share: the crawl's name, its frontier, errors as one line, exit codes.

0 is success, 1 is "no", 2 is wrong use.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from crawlproj import connection
from crawlproj.config import Config
from crawlproj.errors import ConfigError, CrawlError
from crawlproj.frontier.frontier import Frontier


class FrontierCommand(ScrapyCommand):
    """A command about one crawl. Subclasses say what to do with its frontier."""

    requires_project = True
    default_settings = {"LOG_ENABLED": False}
    arguments = ""
    most_arguments: int | None = 0
    summary = ""

    def syntax(self) -> str:
        return f"<crawl> {self.arguments}".strip()

    def short_desc(self) -> str:
        return self.summary

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print JSON, for scripts")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if not args or (self.most_arguments is not None and len(args) - 1 > self.most_arguments):
            raise UsageError(f"give the crawl's name: scrapy {self._name()} {self.syntax()}")
        try:
            self.exitcode = asyncio.run(self._connected(args, opts)) or 0
        except ConfigError as error:
            raise UsageError(str(error), print_help=False) from None
        except CrawlError as error:
            print(error, file=sys.stderr)
            self.exitcode = 1
        except KeyboardInterrupt:
            self.exitcode = 1

    async def _connected(self, args: list[str], opts: argparse.Namespace) -> int | None:
        assert self.settings is not None
        Config.from_settings(self.settings)
        resolved = connection.resolve(self.settings)
        if resolved.notice:
            print(resolved.notice, file=sys.stderr)
        client = await connection.connect(resolved.url, resolved.params)
        try:
            frontier = Frontier(client, args[0], f"command-{self._name()}")
            return await self.work(frontier, args[1:], opts)
        finally:
            await client.aclose()

    async def work(
        self, frontier: Frontier, rest: list[str], opts: argparse.Namespace
    ) -> int | None:
        """Do it; returns the exit code."""
        raise NotImplementedError

    def _name(self) -> str:
        return type(self).__module__.rpartition(".")[2]


def show(opts: argparse.Namespace, found: dict[str, Any], text: str) -> None:
    """Print the result: JSON for scripts, text for people."""
    print(json.dumps(found, indent=2) if opts.json else text)
