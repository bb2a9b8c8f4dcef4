"""`scrapy parse URL`: Scrapy's command, without the frontier; no response is a "no"."""

from __future__ import annotations

import argparse

from scrapy.settings import BaseSettings

from crawlproj.engine.commands import ParsesResponse
from crawlproj.operate.single_pages import WithoutFrontier, allow_typed


class Command(WithoutFrontier, ParsesResponse):
    def adapt(self, settings: BaseSettings, args: list[str]) -> None:
        allow_typed(settings, args)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        super().run(args, opts)
        if self.has_left and not self.has_response:
            self.exitcode = 1
