"""`scrapy fetch URL`: Scrapy's command, without the frontier; no answer is a "no"."""

from __future__ import annotations

import argparse

from scrapy.commands import fetch
from scrapy.http import Response
from scrapy.settings import BaseSettings

from crawlproj.operate.single_pages import WithoutFrontier, open_local_files


class Command(WithoutFrontier, fetch.Command):
    has_answer = False

    def adapt(self, settings: BaseSettings) -> None:
        open_local_files(settings)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        super().run(args, opts)
        if self.has_left and not self.has_answer:
            self.exitcode = 1

    def _print_response(self, response: Response, opts: argparse.Namespace) -> None:
        self.has_answer = True
        super()._print_response(response, opts)
