"""`scrapy store site`: what is kept of a crawl's pages, and `--get` one of them."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path

from crawlproj.config import Config, checked
from crawlproj.errors import ConfigError
from crawlproj.operate.command import (
    ProjectCommand,
    check_crawl,
    check_file,
    offer_json,
    print_error,
    show,
)
from crawlproj.output.store.opening import open_database
from crawlproj.output.store.tables import Database
from crawlproj.plural import counted
from crawlproj.urls import UrlError, normalise


class Command(ProjectCommand):
    arguments = "<crawl> [--store ADDRESS] [--get URL [-o FILE]]"
    most_arguments = 1
    summary = "Say what is in the store of pages, or get one out of it"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--store", metavar="ADDRESS", help="where the pages are (the setting CRAWL_STORE)"
        )
        parser.add_argument(
            "--get",
            metavar="URL",
            help="print what was received from this URL, unpacked; with --json its row",
        )
        parser.add_argument("-o", "--output", metavar="FILE", help="write it there instead")
        offer_json(parser)

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        assert self.settings is not None
        if not args:
            raise self.wrong_use("give the crawl's name")
        check_crawl(args[0])
        if opts.output and opts.get is None:
            raise ConfigError("-o goes with --get")
        check_file(opts.output)
        config = Config.from_settings(self.settings)
        address = checked("store", opts.store) or config.store
        if not address:
            raise ConfigError("which store? add --store sqlite:///…, or set CRAWL_STORE")
        folder = config.folder_of(args[0])
        with closing(open_database(address, folder, to_read=True)) as database:
            return _show_totals(database, opts) if opts.get is None else _get(database, opts)


def _show_totals(database: Database, opts: argparse.Namespace) -> int:
    found = database.totals()
    text = (
        f"{counted(found['pages'], 'page')} with {counted(found['contents'], 'content')}, "
        f"{found['bytes']:,} bytes, packed {found['packed_bytes']:,}"
    )
    show(opts, found, text)
    return 0


def _get(database: Database, opts: argparse.Namespace) -> int:
    row = database.page(opts.get) or database.page(_normal(opts.get))
    if row is None:
        print_error(f"{opts.get}: not in the store")
        return 1
    if opts.json:
        show(opts, row, "")
        return 0
    body = database.body(row["content_hash"])
    if body is None:
        print_error(f"{row['url']}: without content (status {row['status']})")
        return 1
    if opts.output:
        Path(opts.output).write_bytes(body)
    else:
        sys.stdout.buffer.write(body)
    return 0


def _normal(url: str) -> str:
    try:
        return str(normalise(url))
    except UrlError as error:
        raise ConfigError(str(error)) from None
