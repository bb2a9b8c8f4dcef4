"""How fast parts merge, and in how much memory: `python -m benchmarks.merge [--pages 1000000]`.

Parts of four workers, in CSV and JSON lines, one page in a hundred fetched twice. Prints seconds,
pages a second, CPU seconds and the most memory of the process, and checks what came out.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import resource
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from crawlproj.items import PAGE_COLUMNS, utc_timestamp
from crawlproj.output.kinds import FORMATS
from crawlproj.output.merge import Wish, merge

WORKERS = 4
REPEATED = 100
START_S = 1_790_000_000


def row(number: int, lease: int) -> dict[str, Any]:
    """A page as a worker writes it."""
    digest = hashlib.sha256(str(number).encode()).hexdigest()
    site = f"https://site{number % 997}.example.com/"
    return dict.fromkeys(PAGE_COLUMNS, "") | {
        "url": f"{site}{digest[:8]}/{digest[8:14]}/{number}.html",
        "status": 200,
        "title": f'The page "{digest[20:40]}", of {digest[:12]}',
        "depth": number % 9,
        "priority": 100 - 10 * (number % 9),
        "content_type": "text/html",
        "size": 8000 + number % 5000,
        "links": number % 100,
        "content_hash": digest,
        "fetched_at": utc_timestamp(START_S + lease * 0.003),
        "elapsed_ms": 20 + number % 300,
        "referer": site,
        "worker": f"machine-w{lease % WORKERS}",
        "lease": lease,
    }


def write_parts(folder: Path, pages: int) -> int:
    """Write them; returns how many bytes they have."""
    with ExitStack() as files:
        names = [folder / f"pages-w{worker}-0001" for worker in range(WORKERS)]
        tables = [
            files.enter_context(one.with_suffix(".csv").open("w", newline="")) for one in names
        ]
        lines = [files.enter_context(one.with_suffix(".jsonl").open("w")) for one in names]
        writers = [csv.DictWriter(table, PAGE_COLUMNS) for table in tables]
        for writer in writers:
            writer.writeheader()
        for lease in range(pages + pages // REPEATED):
            number = lease if lease < pages else (lease - pages) * REPEATED
            made, worker = row(number, lease), lease % WORKERS
            writers[worker].writerow(made)
            lines[worker].write(json.dumps(made) + "\n")
    return sum(path.stat().st_size for path in folder.iterdir())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--memory", type=int, default=512, help="megabytes that DuckDB may take")
    parser.add_argument("--format", default="csv,jsonl", help="as scrapy merge has it")
    given = parser.parse_args()
    formats = tuple(given.format.split(","))
    assert set(formats) <= set(FORMATS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write_parts(folder, given.pages)
        began, began_cpu = time.perf_counter(), time.process_time()
        report = merge(folder, folder / "out", Wish(formats, memory_mb=given.memory))
        took_s, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    pages = [file for file in report.kinds if file.file.startswith("pages")]
    assert all(file.rows == given.pages for file in pages), pages
    most_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{given.pages:,} pages, {size / 1e6:,.0f} MB of parts, to {given.format}: {took_s:.1f} s, "
        f"{given.pages / took_s:,.0f} pages/s, {cpu_s:.1f} s of CPU, {most_mb:.0f} MB of memory"
    )


if __name__ == "__main__":
    main()
