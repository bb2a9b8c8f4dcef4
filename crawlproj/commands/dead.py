"""`scrapy dead site`: lists the dead letters, or writes, retries or forgets them."""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from crawlproj.config import Config
from crawlproj.errors import ConfigError
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import DeadLetter
from crawlproj.operate import dead_letters
from crawlproj.operate.command import FrontierCommand, refuse_empty, show
from crawlproj.operate.crawls import next_step
from crawlproj.plural import plural
from crawlproj.urls import UrlError

SHOWN = 20
WRITTEN = ("", ".csv", ".jsonl")
"""How files end that can be written."""


class Command(FrontierCommand):
    arguments = "[--retry | --forget | --export FILE] [--reason R] [--host H]"
    summary = "Show, export, retry or forget the URLs that were given up"

    def long_desc(self) -> str:
        return (
            "Shows the URLs that were given up, or does something with them. --retry queues them "
            "again as if they had never been tried: workers that run fetch them at once; a stopped "
            "crawl goes on with them when it is started again, and so does a finished one, which "
            "becomes a stopped one by it. --forget counts them as filtered, and scrapy merge "
            "leaves their rows out of failures.csv."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--retry", action="store_true", help="queue them again")
        what.add_argument("--forget", action="store_true", help="throw them away, as filtered")
        what.add_argument(
            "--export", metavar="FILE", help="write them to FILE: CSV, or JSON lines for *.jsonl"
        )
        parser.add_argument("--reason", metavar="R", help="only those of this reason")
        parser.add_argument(
            "--host",
            metavar="H",
            help="only those of this host: https://example.com, or example.com for both schemes "
            "and all ports",
        )

    def check(self, rest: list[str], opts: argparse.Namespace) -> None:
        refuse_empty(opts, "host", "reason", "export")
        if opts.export and Path(opts.export).suffix not in WRITTEN:
            raise ConfigError(f"--export {opts.export}: give a file that ends in .csv or .jsonl")
        _check_host(opts.host)

    async def work(self, frontier: Frontier, rest: list[str], opts: argparse.Namespace) -> int:
        found: list[DeadLetter] = []
        if await frontier.attach():
            hosts = await dead_letters.hosts_meant(frontier, opts.host) if opts.host else None
            selection = dead_letters.Selection(opts.reason, hosts)
            found = [letter async for letter in dead_letters.find(frontier, selection)]
            found.sort(key=dead_letters.newest_first)
        if opts.retry:
            count = await dead_letters.retry(frontier, found)
            text = f"{count:,} queued again{await next_step(frontier, count)}"
            show(opts, {"retried": count}, text)
        elif opts.forget:
            count = await dead_letters.forget(frontier, found, self._folder(frontier))
            show(opts, {"forgotten": count}, f"{count:,} forgotten")
        elif opts.export:
            _export(found, Path(opts.export))
            exported = {"exported": len(found), "file": opts.export}
            show(opts, exported, f"{len(found):,} written to {opts.export}")
        else:
            rows = [dead_letters.row(letter) for letter in found]
            everything = {
                "dead": len(found),
                "reasons": dead_letters.by_reason(found),
                "letters": rows,
            }
            show(opts, everything, _as_text(frontier.crawl, found))
        return 0 if found else 1

    def _folder(self, frontier: Frontier) -> Path:
        assert self.settings is not None
        return Config.from_settings(self.settings).folder_of(frontier.crawl)


def _check_host(text: str | None) -> None:
    try:
        if text:
            dead_letters.hosts_named(text)
    except UrlError as error:
        raise ConfigError(f"--host: {error}") from None


def _export(found: Sequence[DeadLetter], path: Path) -> None:
    try:
        with path.open("w", newline="", encoding="utf-8", errors="replace") as file:
            _write(found, file, as_json=path.suffix == ".jsonl")
    except OSError as error:
        raise ConfigError(f"--export {path}: cannot be written: {error.strerror}") from None


def _write(found: Sequence[DeadLetter], file: IO[str], *, as_json: bool) -> None:
    if as_json:
        file.writelines(json.dumps(dead_letters.row(letter)) + "\n" for letter in found)
        return
    writer = csv.DictWriter(file, dead_letters.COLUMNS)
    writer.writeheader()
    writer.writerows(dead_letters.row(letter) for letter in found)


def _as_text(crawl: str, found: Sequence[DeadLetter]) -> str:
    if not found:
        return f"{crawl}: no such dead letters"
    lines = [f"{crawl}: {len(found):,} dead", ""]
    lines += [
        f"  {reason:<24}{count:>10,}" for reason, count in dead_letters.by_reason(found).items()
    ]
    lines.append("")
    for letter in found[:SHOWN]:
        lines += _as_lines(letter)
    if len(found) > SHOWN:
        lines.append(f"  … and {len(found) - SHOWN:,} more: --export FILE")
    return "\n".join(lines)


def _as_lines(letter: DeadLetter) -> list[str]:
    """The URL, and below it where it was found: what has to be mended is there."""
    row = dead_letters.row(letter)
    tries = f"{row['attempts']:>3} {plural(row['attempts'], 'try'):<5}"
    again = f" (given up {letter.times:,} times)" if letter.times > 1 else ""
    lines = [f"  {row['reason']:<24}{tries}  {row['url']}{again}"]
    if found_on := row["referer"] or ("" if row["depth"] else "a seed"):
        lines.append(f"{'':<37}{'on ' if row['referer'] else ''}{found_on}")
    return lines
