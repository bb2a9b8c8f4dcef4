"""`scrapy report site`: what a crawl has found, as one HTML page for people."""

from __future__ import annotations

import argparse
from pathlib import Path

from crawlproj.errors import ConfigError
from crawlproj.operate.command import check_file, show
from crawlproj.operate.files_command import FilesCommand
from crawlproj.operate.option_values import megabytes
from crawlproj.operate.progress_line import progress

FILE = "report.html"


class Command(FilesCommand):
    arguments = "<crawl> [FOLDER…] [-o FILE] [--against FOLDER]"
    summary = "Write what a crawl has found, and what is wrong with it, as one HTML page"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "-o", "--output", metavar="FILE", help=f"where to write ({FILE} in the crawl's folder)"
        )
        parser.add_argument(
            "--against", metavar="FOLDER", help="files of an earlier crawl to compare with"
        )
        parser.add_argument(
            "--memory", metavar="MB", type=megabytes, default=256, help="megabytes to take (256)"
        )

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        # DuckDB and Jinja are large.
        from crawlproj.output.report.as_json import as_json
        from crawlproj.output.report.page import write_page
        from crawlproj.output.report.reading import read_report
        from crawlproj.output.report.text import to_text

        check_file(opts.output)
        sources = self.folders(args)
        with progress() as watch:
            report = read_report(args[0], sources, _against(opts.against), opts.memory, watch)
        to = Path(opts.output) if opts.output else sources[0] / FILE
        write_page(report, to)
        show(opts, as_json(report), f"{to_text(report)}Report: {to}\n")
        return 0


def _against(given: str | None) -> Path | None:
    if given is None:
        return None
    folder = Path(given)
    if not any(folder.glob("pages*.*")):
        raise ConfigError(f"--against {given}: give a folder that holds pages of an earlier crawl")
    return folder
