"""`scrapy merge site`: makes one clean file of each kind, from the parts that workers wrote, here
and on other machines."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from crawlproj.operate.command import check_folder, show
from crawlproj.operate.files_command import FilesCommand
from crawlproj.operate.option_values import megabytes
from crawlproj.operate.progress_line import progress


class Command(FilesCommand):
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
            "--memory", metavar="MB", type=megabytes, default=512, help="megabytes to take (512)"
        )

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        from crawlproj.output.merge import Wish, merge  # DuckDB is large

        formats = tuple(dict.fromkeys(filter(None, opts.format.lower().split(","))))
        wish = Wish(formats, opts.sort, opts.memory)
        wish.check()
        check_folder(opts.output)
        sources = self.folders(args)
        to = Path(opts.output) if opts.output else self.output / args[0]
        with progress() as watch:
            report = merge(sources, to, wish, watch=watch)
        show(opts, asdict(report), report.to_text())
        return 0
