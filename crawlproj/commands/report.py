"""`scrapy report site`: what a crawl has found, as one HTML page for people."""

from __future__ import annotations

import argparse
from pathlib import Path

from crawlproj.config import Config
from crawlproj.errors import ConfigError
from crawlproj.operate.command import ProjectCommand, check_file, offer_json, show
from crawlproj.operate.progress_line import progress
from crawlproj.output.folder import NothingThere, sources_of

FILE = "report.html"


class Command(ProjectCommand):
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
            "--memory", metavar="MB", type=int, default=256, help="megabytes it may take (256)"
        )
        offer_json(parser)

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        # DuckDB and Jinja are large.
        from crawlproj.output.report.as_json import as_json
        from crawlproj.output.report.page import write_page
        from crawlproj.output.report.reading import read_report
        from crawlproj.output.report.text import to_text

        assert self.settings is not None
        if not args:
            raise self.wrong_use("give the crawl's name")
        check_file(opts.output)
        own = Path(Config.from_settings(self.settings).output) / args[0]
        sources = sources_of(own, args[1:])
        if not any(map(Path.is_dir, sources)):
            raise NothingThere(f"Nothing in {own}: run the crawl first, or check its name")
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
