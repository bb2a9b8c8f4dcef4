"""`scrapy rank site`: the pages of a crawl by their importance, from the links among them."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from crawlproj.operate.command import check_file, show
from crawlproj.operate.files_command import FilesCommand
from crawlproj.operate.table import table
from crawlproj.output.rows import harmless
from crawlproj.output.whole_file import written_whole
from crawlproj.plural import counted

if TYPE_CHECKING:
    from crawlproj.output.link_rank import RankedPage, Ranks


class Command(FilesCommand):
    arguments = "<crawl> [FOLDER…] [--most N] [-o FILE]"
    summary = "Rank the pages of a crawl by the links among them"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("-o", "--output", metavar="FILE", help="write all pages there, as CSV")
        parser.add_argument("--most", metavar="N", type=int, default=50, help="pages to list (50)")

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        from crawlproj.output.link_rank import rank, ranked_pages  # DuckDB is large
        from crawlproj.output.tables import open_tables

        check_file(opts.output)
        sources = self.folders(args)
        with open_tables(sources) as tables:
            ranks = rank(tables)
            pages = list(ranked_pages(tables, ranks, max(0, opts.most)))
            if opts.output:
                _write(Path(opts.output), ranked_pages(tables, ranks))
        told = {
            "pages": [page._asdict() for page in pages],
            "total": len(ranks.pagerank),
            "links": ranks.links,
            "harmonic": "exact" if ranks.is_exact else "estimated",
        }
        show(opts, told, _to_text(pages, ranks))
        return 0


def _to_text(pages: list[RankedPage], ranks: Ranks) -> str:
    rows = [
        (f"{page.pagerank:.6f}", f"{page.harmonic:.4f}", f"{page.in_links:,}", page.url)
        for page in pages
    ]
    lines = table(("pagerank", "harmonic", "in_links", "url"), rows, numbers=range(3))
    all_pages, links = counted(len(ranks.pagerank), "page"), counted(ranks.links, "link")
    estimated = "" if ranks.is_exact else "; harmonic centrality is estimated"
    return "\n".join([*lines, "", f"{all_pages}, {links} among them{estimated}"])


def _write(to: Path, pages: Iterable[RankedPage]) -> None:
    with (
        written_whole(to) as unfinished,
        unfinished.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(("url", "pagerank", "harmonic", "in_links"))
        writer.writerows((harmless(page.url), *page[1:]) for page in pages)
