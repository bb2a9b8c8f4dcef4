"""`scrapy sitemap site`: writes the sitemap.xml of what was crawled."""

from __future__ import annotations

import argparse
from pathlib import Path

from crawlproj.operate.command import check_folder, show
from crawlproj.operate.files_command import FilesCommand
from crawlproj.plural import counted


class Command(FilesCommand):
    arguments = "<crawl> [FOLDER…] [--host HOST] [-o DIR]"
    summary = "Write the sitemap.xml of a crawl"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "-o", "--output", metavar="DIR", help="where to write (the crawl's own folder)"
        )
        parser.add_argument(
            "--host", default="", help="whose pages, where the crawl has those of several hosts"
        )

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        from crawlproj.output.sitemap_writing import host_of, write_sitemap  # DuckDB is large
        from crawlproj.output.tables import open_tables

        check_folder(opts.output)
        sources = self.folders(args)
        out = Path(opts.output) if opts.output else self.output / args[0]
        with open_tables(sources) as tables:
            host = host_of(tables, opts.host)
            urls, files = write_sitemap(tables, host, out)
        found = {"folder": str(out), "host": host, "urls": urls, "files": files}
        show(opts, found, f"{counted(urls, 'URL')} of {host} in {out / files[0]}")
        return 0
