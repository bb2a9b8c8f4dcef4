"""`scrapy shell URL`: Scrapy's command, without the frontier; with -c, no answer is a "no"."""

from __future__ import annotations

import argparse
from typing import Any

from scrapy.commands import shell
from scrapy.settings import BaseSettings

from crawlproj.operate.single_pages import WithoutFrontier, allow_typed, open_local_files


class Command(WithoutFrontier, shell.Command):
    _has_response = False

    def adapt(self, settings: BaseSettings, args: list[str]) -> None:
        allow_typed(settings, args)
        open_local_files(settings)
        settings.set("DUPEFILTER_CLASS", "scrapy.dupefilters.BaseDupeFilter", priority="cmdline")

    def update_vars(self, vars: dict[str, Any]) -> None:  # noqa: A002 - Scrapy calls it that
        self._has_response = vars.get("response") is not None

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        super().run(args, opts)
        if self.has_left and args and opts.code and not self._has_response:
            self.exitcode = 1
