"""`scrapy merge site`: one clean file of each kind, from the parts that workers wrote here."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from crawlproj.config import Config
from crawlproj.operate.command import ProjectCommand, offer_json, show
from crawlproj.output.merge import merge


class Command(ProjectCommand):
    arguments = "<crawl> [-o DIR]"
    most_arguments = 1
    summary = "Merge the files of all workers into one clean file of each kind"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "-o", "--output", metavar="DIR", help="where to write (the same folder)"
        )
        offer_json(parser)

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        assert self.settings is not None
        if not args:
            raise self.wrong_use("give the crawl's name")
        folder = Path(Config.from_settings(self.settings).output) / args[0]
        report = merge(folder, Path(opts.output) if opts.output else folder)
        show(opts, asdict(report), report.to_text())
        return 0
