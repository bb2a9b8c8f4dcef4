"""`scrapy query site "SELECT …"`: runs SQL over what a crawl has left, or has written so far."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from crawlproj.errors import ConfigError
from crawlproj.operate.command import check_file
from crawlproj.operate.files_command import FilesCommand
from crawlproj.operate.hard_limits import end_at_once, limit_memory
from crawlproj.operate.option_values import megabytes, time_limit
from crawlproj.operate.plain_text import printable
from crawlproj.output.scratch import Scratch
from crawlproj.output.whole_file import unfinished_of, written_whole

if TYPE_CHECKING:
    from crawlproj.output.query import Query

FORMATS = ("table", "csv", "json", "parquet")
BY_SUFFIX = {".csv": "csv", ".json": "json", ".parquet": "parquet"}


class Command(FilesCommand):
    arguments = '<crawl> "SELECT …" [FOLDER…]'
    summary = "Ask in SQL what a crawl has found"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--format",
            choices=FORMATS,
            help="table, csv, json or parquet (by the name of -o, else a table)",
        )
        parser.add_argument("-o", "--output", metavar="FILE", help="where to write the answer")
        parser.add_argument(
            "--timeout", metavar="S", type=time_limit, default=300, help="seconds to wait (300)"
        )
        parser.add_argument(
            "--memory", metavar="MB", type=megabytes, default=512, help="megabytes to take (512)"
        )

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        from crawlproj.output.query import Query  # DuckDB is large

        if len(args) < 2:
            raise self.wrong_use("give the crawl's name and a question")
        crawl, sql, *folders = args
        check_file(opts.output)
        with _own_temporary_folder() as folder:
            left = [folder, *([unfinished_of(Path(opts.output))] if opts.output else [])]
            query = Query(
                sys.stdin.read() if sql == "-" else sql,
                opts.timeout,
                opts.memory,
                on_overdue=lambda text: end_at_once(text, *left),
            )
            query.check()
            sources = self.folders([crawl, *folders])
            limit_memory(opts.memory)
            _answer(query, sources, opts)
        return 0


@contextmanager
def _own_temporary_folder() -> Iterator[Path]:
    """For all temporary files of this process, so that there is one thing to remove at its end,
    however that comes."""
    before = tempfile.tempdir
    with closing(Scratch("query")) as scratch:
        tempfile.tempdir = str(scratch.path)
        try:
            yield scratch.path
        finally:
            tempfile.tempdir = before


def _answer(query: Query, sources: list[Path], opts: argparse.Namespace) -> None:
    from crawlproj.output import answers

    by_name = BY_SUFFIX.get(Path(opts.output or "").suffix.lower(), "table")
    format_ = opts.format or ("json" if opts.json else by_name)
    if format_ == "parquet":
        if not opts.output:
            raise ConfigError("--format parquet: give a file with -o")
        query.write_parquet(sources, Path(opts.output))
        return
    with query.answer(sources) as answer, _written(opts.output) as file:
        if format_ == "csv":
            answers.write_csv(answer, file)
        elif format_ == "json":
            answers.write_json(answer, file)
        else:
            answers.write_table(answer, file, printable)


@contextmanager
def _written(output: str | None) -> Iterator[IO[str]]:
    """Standard output, or a file that appears when it is whole."""
    if output is None:
        yield sys.stdout
        return
    with (
        written_whole(Path(output)) as unfinished,
        unfinished.open("w", encoding="utf-8", newline="") as file,
    ):
        yield file
