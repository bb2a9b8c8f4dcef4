"""`scrapy patterns site`: lists the URL patterns that are set aside, or releases one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.pattern_store import Pattern
from crawlproj.operate import pattern_release
from crawlproj.operate.command import FrontierCommand, refuse_empty, show
from crawlproj.operate.crawls import next_step
from crawlproj.operate.pattern_release import PatternStatus
from crawlproj.operate.status_view import pattern_line
from crawlproj.plural import counted

EVERY = "all"


class Command(FrontierCommand):
    arguments = "[--release PATTERN | --release all]"
    summary = "Show or release the URL patterns that are set aside"

    def long_desc(self) -> str:
        return (
            "Shows the URL patterns that brought nothing new and were set aside (# stands for a "
            "number or an id, ?* for any query), how many URLs of each were filtered, and how many "
            "of those are kept. --release queues the kept ones, and the pattern is left alone for "
            "the rest of the crawl. Give the pattern as it is shown, in quotes, or all. A finished "
            "crawl becomes a stopped one by it, and goes on when it is started again."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--release", metavar="PATTERN", help="queue its URLs; or: all")

    def check(self, rest: list[str], opts: argparse.Namespace) -> None:
        refuse_empty(opts, "release")

    async def work(self, frontier: Frontier, rest: list[str], opts: argparse.Namespace) -> int:
        known = (
            await pattern_release.find(frontier, released=True) if await frontier.attach() else []
        )
        held = [one for one in known if not one.released_ms]
        if opts.release:
            return await self._release(frontier, held, opts)
        rows = await pattern_release.rows(frontier, known)
        show(opts, [asdict(row) for row in rows], _as_text(frontier.crawl, rows))
        return 0 if held else 1

    async def _release(
        self, frontier: Frontier, held: Sequence[Pattern], opts: argparse.Namespace
    ) -> int:
        wanted = [one for one in held if opts.release in (EVERY, pattern_release.name(one))]
        queued = await pattern_release.release(frontier, wanted)
        found = {"released": [pattern_release.name(one) for one in wanted], "queued": queued}
        text = f"{len(wanted)} released, {counted(queued, 'URL')} queued"
        text += await next_step(frontier, queued)
        show(opts, found, text if wanted else f"{opts.release}: no such pattern is set aside")
        return 0 if wanted else 1


def _as_text(crawl: str, rows: Sequence[PatternStatus]) -> str:
    if not rows:
        return f"{crawl}: no pattern is set aside"
    lines = [f"{crawl}: {counted(len(rows), 'pattern')}", ""]
    return "\n".join([*lines, *(f"  {pattern_line(row)}" for row in rows)])
