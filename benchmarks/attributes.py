"""What it takes to read a page's attributes, beside parsing it with lxml: CPU time, one thread.

    python -m benchmarks.attributes [FOLDER …]

Pages are those of some documentation packages of Debian, or the `*.html` of the folders given.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lxml.html import HTMLParser, document_fromstring

from benchmarks import environments, rounds
from benchmarks.common import Row
from crawlproj.output.attributes.reading import read_attributes

PACKAGES = ("git-doc", "sqlite3-doc", "debian-policy", "llvm-16-doc", "clang-16-doc")
MOST_PAGES = 400


def main() -> None:
    parser = rounds.parser("attributes", __doc__, rounds=3)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    folders = options.folders or [
        found for name in PACKAGES if (found := environments.package(name))
    ]
    rounds.run("attributes", options, folders, measure, by=["pages_of"], on_crawlers_core=True)


def measure(_: object, __: object, folder: Path) -> Iterator[Row]:
    """How long a page takes, on average."""
    files = [file for file in sorted(folder.rglob("*.html")) if file.is_file()][:MOST_PAGES]
    pages = [text for file in files if (text := file.read_text("utf-8", "replace")).strip()]
    lxml_ms = cpu_ms(parse, pages)
    ours_ms = cpu_ms(read, pages)
    yield {
        "pages_of": folder.name,
        "pages": len(pages),
        "page_kb": sum(map(len, pages)) / len(pages) / 1000,
        "attributes_ms": ours_ms,
        "lxml_parse_ms": lxml_ms,
        "times_lxml": ours_ms / lxml_ms,
    }


def cpu_ms(work: Callable[[str], Any], pages: list[str]) -> float:
    for page in pages[:5]:
        work(page)
    begun = time.thread_time()
    for page in pages:
        work(page)
    return (time.thread_time() - begun) * 1000 / len(pages)


def read(page: str) -> object:
    return read_attributes(page, "https://docs.example/page.html", "", "")


def parse(page: str) -> object:
    return document_fromstring(page.encode(), HTMLParser(encoding="utf-8"))


if __name__ == "__main__":
    main()
