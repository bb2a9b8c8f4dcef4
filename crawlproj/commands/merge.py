"""`scrapy merge site`: one clean file of each kind, from the parts that workers wrote here."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from crawlproj.config import Config
from crawlproj.errors import CrawlError
from crawlproj.merging import merge


class Command(ScrapyCommand):
    requires_project = True
    default_settings = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        return "<crawl> [-o DIR]"

    def short_desc(self) -> str:
        return "Merge the files of all workers into one clean file of each kind"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "-o", "--output", metavar="DIR", help="where to write (the same folder)"
        )
        parser.add_argument("--json", action="store_true", help="print JSON, for scripts")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise UsageError("give the crawl's name: scrapy merge <crawl> [-o DIR]")
        assert self.settings is not None
        try:
            folder = Path(Config.from_settings(self.settings).output) / args[0]
            report = merge(folder, Path(opts.output) if opts.output else folder)
        except CrawlError as error:
            print(error, file=sys.stderr)
            self.exitcode = 1
            return
        print(json.dumps(asdict(report), default=str, indent=2) if opts.json else report.to_text())
