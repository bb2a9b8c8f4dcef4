"""What a store costs: pages committed fifty at a time against one by one, in SQLite and PostgreSQL;
and a worker at full speed without a store and with each.

    python -m benchmarks.store [--pages 2000] [--seconds 8] [--postgresql ADDRESS]

Without an address the PostgreSQL that the tests use is started, with fsync.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.common import end_cleanly, redis_server
from benchmarks.fleet import crawl_for_a_while
from crawlproj.demo import WebSpec
from crawlproj.items import PageItem
from crawlproj.output.store.opening import open_database
from crawlproj.output.store.tables import StoredPage
from crawlproj.output.store.writer import BATCH_PAGES
from tests.servers.postgresql import PostgresServer

ROUNDS = 3
WORDS = [f"word{n:x}" for n in range(4000)]


def pages(count: int, name: str) -> list[StoredPage]:
    """Of about 10 KB, each with a content of its own."""
    words = random.Random(name)
    found = []
    for n in range(count):
        body = f"<title>{name} {n}</title>{' '.join(words.choices(WORDS, k=1400))}".encode()
        row = PageItem(
            url=f"http://example.com/{name}/{n}",
            status=200,
            title=f"Page {n}",
            content_type="text/html",
            size=len(body),
            content_hash=hashlib.sha256(body).hexdigest(),
            fetched_at="2026-01-31T09:05:00.250Z",
            worker="bench",
        )
        found.append(StoredPage(row, body, "bench"))
    return found


def measure(address: str, folder: Path, count: int, batch: int, name: str) -> tuple[float, float]:
    """Seconds, and of processor time of this process, a page."""
    database, made = open_database(address, folder), pages(count, name)
    began_s, busy_s = time.perf_counter(), time.process_time()
    for start in range(0, count, batch):
        database.write(made[start : start + batch])
    took = time.perf_counter() - began_s, time.process_time() - busy_s
    database.close()
    return took[0] / count, took[1] / count


def table(addresses: dict[str, str], folder: Path, count: int) -> Iterator[str]:
    yield "| database | pages a commit | pages/s | ms of CPU a page | against one by one |"
    yield "|---|---|---|---|---|"
    for name, address in addresses.items():
        best: dict[int, tuple[float, float]] = {}
        for turn in range(ROUNDS):  # by turns, so that both have the same machine
            for batch in (1, BATCH_PAGES):
                much = count if batch > 1 else count // 4
                found = measure(address, folder, much, batch, f"{turn}-{batch}")
                best[batch] = min(best.get(batch, found), found)
        for batch, (wall_s, cpu_s) in best.items():
            ratio = best[1][0] / wall_s
            yield f"| {name} | {batch} | {1 / wall_s:,.0f} | {cpu_s * 1000:.2f} | {ratio:.1f} × |"


def crawl_table(addresses: dict[str, str], seconds: float) -> Iterator[str]:
    """One worker on a web of pages of 10 KB; the stores keep what was there, as they do."""
    web = WebSpec(hosts=20, pages=40_000, depth=6, page_bytes=10_000)
    found: dict[str, list[tuple[float, float, float]]] = {}
    with redis_server() as (server, client):
        for _ in range(ROUNDS):
            for name, address in {"none": "", **addresses}.items():
                ran, _ = crawl_for_a_while(
                    web,
                    server,
                    client,
                    workers=1,
                    seconds=seconds,
                    profile="fast",
                    settings={"CRAWL_STORE": address} if address else {},
                )
                costs = ran.costs()
                row = ran.pages_per_s, costs["cpu_ms_per_page"], costs["redis_cpu_ms_per_page"]
                found.setdefault(name, []).append(row)
    yield "| store | pages/s | ms of CPU a page | of Redis | CPU against none |"
    yield "|---|---|---|---|---|"
    none_ms = median(row[1] for row in found["none"])
    for name, rows in found.items():
        pages_per_s, cpu_ms, redis_ms = (median(column) for column in zip(*rows, strict=True))
        ratio = cpu_ms / none_ms
        yield f"| {name} | {pages_per_s:,.0f} | {cpu_ms:.2f} | {redis_ms:.3f} | {ratio:.2f} × |"


def main() -> None:
    end_cleanly()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each crawl")
    parser.add_argument("--postgresql", metavar="ADDRESS")
    options = parser.parse_args()
    with ExitStack() as stack:
        # Not in a folder of temporary files, which may be in memory.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="."))).resolve()
        address = options.postgresql
        if not address:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            server = stack.enter_context(PostgresServer(place, "fsync=on"))
            address = server.url()
        addresses = {"SQLite": f"sqlite:///{folder}/pages.db", "PostgreSQL": address}
        for line in table(addresses, folder, options.pages):
            print(line, flush=True)
        print()
        for line in crawl_table(addresses, options.seconds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
