"""`scrapy merge site`: makes one clean file of each kind, from the parts that workers wrote, here
and on other machines."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from crawlproj.config import Config
from crawlproj.errors import ConfigError
from crawlproj.operate.command import ProjectCommand, offer_json, show
from crawlproj.operate.progress_line import progress
from crawlproj.output.folder import sources_of


class Command(ProjectCommand):
    arguments = "<crawl> [FOLDER…] [-o DIR]"
    summary = "Merge the files of all workers into one clean file of each kind"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "-o", "--output", metavar="DIR", help="where to write (the crawl's own folder)"
        )
        parser.add_argument(
            "--format",
            metavar="FORMATS",
            default="",
            help="csv, jsonl, parquet, or several with commas between (as workers write them)",
        )
        parser.add_argument(
            "--sort",
            metavar="COLUMN",
            default="",
            help="order of the rows; --sort=-size for the largest first (by time)",
        )
        parser.add_argument(
            "--memory", metavar="MB", type=int, default=512, help="megabytes that it may take (512)"
        )
        offer_json(parser)

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        from crawlproj.output.merge import Wish, merge  # DuckDB is large

        assert self.settings is not None
        if not args:
            raise self.wrong_use("give the crawl's name")
        formats = tuple(dict.fromkeys(filter(None, opts.format.lower().split(","))))
        wish = Wish(formats, opts.sort, opts.memory)
        wish.check()
        own = Path(Config.from_settings(self.settings).output) / args[0]
        sources = sources_of(own, args[1:])
        if opts.output and Path(opts.output).is_file():
            raise ConfigError(f"-o {opts.output}: that is a file; give a folder")
        with progress() as watch:
            report = merge(sources, Path(opts.output) if opts.output else own, wish, watch=watch)
        show(opts, asdict(report), report.to_text())
        return 0
