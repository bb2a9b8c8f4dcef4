"""`scrapy doctor`: checks Redis, settings and this machine, and says what to do."""

from __future__ import annotations

import argparse
import asyncio

from crawlproj.operate import doctor
from crawlproj.operate.command import ProjectCommand, offer_json, show


class Command(ProjectCommand):
    arguments = "[--dns NAME]"
    most_arguments = 0
    summary = "Check Redis, settings, file limits, DNS and the output folder"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--dns", metavar="NAME", default="example.com", help="name to look up (example.com)"
        )
        offer_json(parser)

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        assert self.settings is not None
        findings = [
            *doctor.check_settings(self.settings),
            *doctor.check_downloads(self.settings),
            *doctor.check_proxies(self.settings),
            *asyncio.run(doctor.check_redis(self.settings)),
            *doctor.check_files(self.settings),
            *doctor.check_dns(opts.dns),
            *doctor.check_output(self.settings),
        ]
        told = [finding._asdict() for finding in findings]
        lines = [f"{level:<5} {about:<12} {text}" for level, about, text in findings]
        show(opts, {"checks": told}, "\n".join(lines))
        return 1 if any(finding.level == "fail" for finding in findings) else 0
