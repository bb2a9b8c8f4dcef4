"""What commands share that read the files which a crawl has left. They need no Redis."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from crawlproj.config import Config
from crawlproj.operate.command import ProjectCommand, check_crawl, offer_json
from crawlproj.operate.project_spiders import ADDON, writes_files
from crawlproj.output.folder import NothingThere, crawl_folders


class FilesCommand(ProjectCommand):
    """A command about the files of one crawl, which is named first; folders with its parts from
    other machines may follow."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        offer_json(parser)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        end_with_sigterm()
        super().run(args, opts)

    @property
    def output(self) -> Path:
        """The folder in which each crawl has its own."""
        assert self.settings is not None
        return Path(Config.from_settings(self.settings).output)

    def folders(self, args: list[str]) -> list[Path]:
        """All folders of the crawl, the one of this machine first, if it is there."""
        if not args:
            raise self.wrong_use("give the crawl's name")
        crawl, *others = args
        check_crawl(crawl)
        try:
            return crawl_folders(self.output, crawl, others)
        except NothingThere as error:
            assert self.settings is not None
            if writes_files(self.settings):
                raise
            raise NothingThere(
                f"Nothing in {self.output / crawl}: workers of this project write no files there; "
                f"with {ADDON} in its settings they do"
            ) from error


def end_with_sigterm() -> None:
    """Have a SIGTERM end this process as an exit does, so that temporary files are removed."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
