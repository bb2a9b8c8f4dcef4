"""`scrapy archive site`: checks, indexes, packs and reads what `-a archive=true` has kept."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from crawlproj.errors import ConfigError, CrawlError
from crawlproj.operate.command import check_file, print_error, show
from crawlproj.operate.files_command import FilesCommand
from crawlproj.operate.progress_line import progress
from crawlproj.output.folder import ARCHIVE
from crawlproj.plural import counted


class Command(FilesCommand):
    arguments = "<crawl> [--verify | --index | --wacz FILE | --get URL [--raw] [-o FILE]]"
    most_arguments = 1
    summary = "Check, index, pack and read the WARC files of a crawl"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            "--verify", action="store_true", help="read all of it: exit code 1 if it is damaged"
        )
        what.add_argument("--index", action="store_true", help="write archive/index.cdxj")
        what.add_argument("--wacz", metavar="FILE", help="pack all of it into one file to replay")
        what.add_argument("--get", metavar="URL", help="the newest page of a URL, unpacked")
        offer = parser.add_argument
        offer("--raw", action="store_true", help="with --get: headers and body as they came")
        offer("-o", "--output", metavar="FILE", help="with --get: write it there")

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        if (opts.raw or opts.output) and not opts.get:
            raise ConfigError("--raw and -o go with --get")
        check_file(opts.output)
        check_file(opts.wacz, "--wacz")
        folder = self.folders(args)[0] / ARCHIVE
        if not folder.is_dir():
            raise CrawlError(f"{folder} is not there: scrapy crawl site -a archive=true keeps one")
        if opts.verify:
            return _verify(folder, opts)
        if opts.index:
            return _index(folder, opts)
        if opts.wacz:
            return _wacz(folder, args[0], opts)
        return _get(folder, opts) if opts.get else _overview(folder, opts)


def _verify(folder: Path, opts: argparse.Namespace) -> int:
    from crawlproj.output.archive.verifying import verify

    with progress() as watch:
        verdict = verify(folder, watch)
    show(opts, verdict.to_json(), verdict.to_text())
    return 0 if verdict.is_good else 1


def _index(folder: Path, opts: argparse.Namespace) -> int:
    from crawlproj.output.archive import files, index

    _tell_of_cuts(files.cut_torn_tails(folder))
    with progress() as watch:
        captures = index.write_index(folder, watch)
    path = folder / index.NAME
    text = f"{path}: {counted(captures, 'capture')}"
    show(opts, {"index": str(path), "captures": captures}, text)
    return 0


def _wacz(folder: Path, crawl: str, opts: argparse.Namespace) -> int:
    from crawlproj.output.archive import files
    from crawlproj.output.archive.wacz import write_wacz

    _tell_of_cuts(files.cut_torn_tails(folder))
    with progress() as watch:
        packed = write_wacz(folder, Path(opts.wacz), crawl, watch)
    text = (
        f"{opts.wacz}: {counted(packed.files, 'WARC file')}, "
        f"{counted(packed.captures, 'capture')}, {counted(packed.pages, 'page')}, "
        f"{packed.bytes:,} bytes"
    )
    show(opts, {"wacz": opts.wacz, **packed._asdict()}, text)
    return 0


def _get(folder: Path, opts: argparse.Namespace) -> int:
    from crawlproj.output.archive.lookup import find

    page = find(folder, opts.get)
    content = page.head + page.body if opts.raw else page.payload()
    if opts.output:
        Path(opts.output).write_bytes(content)
        text = f"{opts.output}: {counted(len(content), 'byte')}, of {page.entry.timestamp}"
        show(opts, {**page.entry.fields, "timestamp": page.entry.timestamp}, text)
    elif opts.json:
        show(opts, {**page.entry.fields, "timestamp": page.entry.timestamp}, "")
    else:
        sys.stdout.buffer.write(content)
    return 0


def _overview(folder: Path, opts: argparse.Namespace) -> int:
    from crawlproj.output.archive import files, index

    paths = files.files_of(folder)
    size = sum(path.stat().st_size for path in paths)
    live = [path.name for path in paths if files.is_being_written(path)]
    state = index.state_of(folder)
    text = (
        f"{folder}: {counted(len(paths), 'WARC file')}, {size:,} bytes, {len(live)} being written; "
        f"index: {state}"
    )
    show(opts, {"files": len(paths), "bytes": size, "being_written": live, "index": state}, text)
    return 0


def _tell_of_cuts(cut: dict[Path, int]) -> None:
    for path, end in cut.items():
        print_error(f"{path.name}: cut off at {end}, where its worker was killed")
