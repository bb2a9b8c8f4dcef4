"""`scrapy near site`: the clusters of near-duplicate pages of a crawl."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from crawlproj.operate.command import show
from crawlproj.operate.files_command import FilesCommand
from crawlproj.plural import counted

if TYPE_CHECKING:
    from crawlproj.output.near_copies import Found

MOST_URLS = 1000
"""Of one cluster; all are to be had by `scrapy query`."""
MOST_SHOWN = 5
"""URLs of a cluster that people see."""


class Command(FilesCommand):
    arguments = "<crawl> [FOLDER…] [--most N]"
    summary = "List clusters of near-duplicate pages"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--most", metavar="N", type=int, default=50, help="clusters to list (50)"
        )

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        from crawlproj.output.near_copies import find_clusters  # DuckDB is large
        from crawlproj.output.tables import open_tables

        sources = self.folders(args)
        with open_tables(sources) as tables:
            found = find_clusters(tables, max(0, opts.most), MOST_URLS)
        told = {
            "clusters": [cluster._asdict() for cluster in found.clusters],
            "total": found.total,
            "copies": found.copies,
        }
        show(opts, told, _to_text(found))
        return 0


def _to_text(found: Found) -> str:
    if not found.total:
        return "No near-duplicates: they are looked for with -a near=true"
    copies, pages = counted(found.copies, "near-duplicate"), counted(found.total, "page")
    lines = [f"{copies} of {pages}"]
    for cluster in found.clusters:
        lines += ["", cluster.url, *(f"  {url}" for url in cluster.urls[:MOST_SHOWN])]
        if cluster.copies > MOST_SHOWN:
            lines.append(f"  and {cluster.copies - MOST_SHOWN:,} more")
    if left_out := found.total - len(found.clusters):
        lines += ["", f"and those of {counted(left_out, 'page')} more"]
    return "\n".join(lines)
