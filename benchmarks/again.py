"""What a second crawl of the same site transfers: a documentation package of Debian, crawled three
times by one worker.

The first crawl keeps its links; the second is made against its files (`-a against=`), with nothing
changed; then some of the pages change, and a third is made. The origin sends an ETag with each page
and answers 304 to whoever has it. Requests and bytes of bodies are counted there; links and pages
of the later crawls are held against those of the first.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from hashlib import sha256
from pathlib import Path

from benchmarks import environments
from benchmarks.common import Row, machine, publish, redis_server
from benchmarks.static import Pages, leading_to_most, read
from crawlproj.output.link_table import lines_of, read_row
from crawlproj.output.parts import parts_of
from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply, Request, Route

PACKAGE = "sqlite3-doc"
CHANGED = 0.05
WAIT_S = 600
SETTINGS: dict[str, object] = {"POLITENESS_DELAY": "0", "CRAWL_ALLOW_ADDRESSES": "loopback"}


class Site:
    """Pages with an ETag each, and what was asked of them."""

    def __init__(self, pages: Pages) -> None:
        self.pages = dict(pages)
        self.statuses: list[int] = []
        self.sent_bytes = 0

    def answer(self, request: Request) -> Reply:
        body = self.pages[request.path]
        headers = {"ETag": f'"{sha256(body).hexdigest()[:20]}"'}
        is_same = request.headers.get("if-none-match") == headers["ETag"]
        reply = Reply(304, headers) if is_same else Reply(headers=headers, body=body)
        self.statuses.append(reply.status)
        self.sent_bytes += len(reply.body)
        return reply

    def change(self, share: float) -> None:
        """A paragraph more on so many of the pages, drawn by lot."""
        chosen = random.Random(1).sample(sorted(self.pages), round(share * len(self.pages)))
        for path in chosen:
            self.pages[path] += b"<p>This page has been revised.</p>"

    def routes(self) -> dict[str, Route]:
        return {"/robots.txt": Reply(404), **dict.fromkeys(self.pages, self.answer)}


def links_of(folder: Path) -> set[tuple[str, str]]:
    parts = parts_of([folder], "links", "jsonl.zst")
    rows = [read_row(line) for part in parts for line in lines_of(part)]
    return {(row["source"], link["target"]) for row in rows if row for link in row["links"]}


def crawl(fleet: Fleet, seed: str, site: Site, name: str, **given: str) -> Row:
    site.statuses, site.sent_bytes = [], 0
    worker = fleet.start(SETTINGS, crawl=name, seeds=seed, links="true", **given)
    reason = worker.wait(WAIT_S)
    if reason != "finished":
        raise SystemExit(f"{name} did not finish but: {reason}\n{worker.log}")
    status = fleet.status(name)
    return {
        "crawl": name,
        "pages": status["done"],
        "requests": len(site.statuses),
        "not_modified": site.statuses.count(304),
        "mb": site.sent_bytes / 1e6,
        "saved_mb": status["saved_bytes"] / 1e6,
        "balance": status["balance"],
    }


def lost(fleet: Fleet, name: str) -> Row:
    """What the first crawl has and this one has not."""
    before, after = (links_of(fleet.output / one) for one in ("first", name))
    urls = [{row["url"] for row in fleet.rows("pages", one)} for one in ("first", name)]
    return {
        "links": len(after),
        "links_lost": len(before - after),
        "pages_lost": len(urls[0] - urls[1]),
    }


def measure(fleet: Fleet, first: str, site: Site, changed: float) -> list[Row]:
    with Origin(site.routes()) as origin:
        seed = origin.url(first)
        rows = [crawl(fleet, seed, site, "first")]
        against = str(fleet.output / "first")
        rows.append(crawl(fleet, seed, site, "unchanged", against=against))
        site.change(changed)
        rows.append(crawl(fleet, seed, site, "changed", against=against))
    whole_mb = rows[0]["mb"]
    return [row | {"of_first": row["mb"] / whole_mb} | lost(fleet, row["crawl"]) for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.again", description=__doc__)
    parser.add_argument("--package", default=PACKAGE, help=f"of Debian [{PACKAGE}]")
    parser.add_argument("--changed", type=float, default=CHANGED, help=f"of the pages [{CHANGED}]")
    options = parser.parse_args()
    folder = environments.package(options.package)
    if folder is None:
        raise SystemExit(f"{options.package} cannot be had")
    first, pages = leading_to_most(read(folder))
    with (
        redis_server() as (server, client),
        tempfile.TemporaryDirectory(prefix="bench-again-") as scratch,
        Fleet(Path(scratch), server.url) as fleet,
    ):
        rows = measure(fleet, first, Site(pages), options.changed)
        publish("again", machine(client), vars(options), rows)


if __name__ == "__main__":
    main()
