"""Pages as files in memory, for nginx: many times the same tree, below folders of different names.

The folders are links to one tree, so a web of twenty thousand pages takes the memory of a
thousand. An index page leads to the first page of each.
"""

from __future__ import annotations

import gzip
import itertools
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import brotli

from benchmarks.static import Pages, leading_to_most, read

IN_MEMORY = Path("/dev/shm")
TREE = "tree"
BROTLI_QUALITY = 5
GZIP_LEVEL = 6

HEAVY_BYTES = 240_000
HEAVY_PAGES = 200
HEAVY_LINKS = 100
_LINK = re.compile(rb"(?is)<a\b[^>]*>(.*?)</a\s*>")
_ANCHOR = re.compile(rb"(?i)<a\b[^>]*>")
_OUTSIDE_BODY = re.compile(
    rb"(?is)^.*?<body[^>]*>|</body\s*>.*$|<(script|style)\b.*?</\1\s*>|<img\b.*?>"
)
# Hundreds of links of sqlite3-doc lead to pages that no package has: a third of all requests.
_DEAD = re.compile(rb"""(?i)\shref=["']?[^"'>]*\bmatrix/[^"'\s>]*["']?""")


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """A folder on a file system in memory, where there is one."""
    where = IN_MEMORY if IN_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="bench-web-", dir=where) as folder:
        yield Path(folder)


def documentation(folders: Iterable[Path]) -> tuple[list[str], Pages]:
    """The pages of some packages that can be reached: the first of each package, and all."""
    firsts: list[str] = []
    pages: Pages = {}
    for folder in folders:
        whole = {path: _DEAD.sub(b"", body) for path, body in read(folder).items()}
        first, reached = leading_to_most(whole)
        firsts.append(f"/{folder.name}{first}")
        pages |= {f"/{folder.name}{path}": body for path, body in reached.items()}
    return firsts, pages


def heavy(pages: Pages) -> tuple[list[str], Pages]:
    """Pages of one size from the text of real ones, with as many links as a page of the web."""
    bodies = itertools.cycle(_OUTSIDE_BODY.sub(b"", body) for body in pages.values())
    made = {f"/{_name(number)}.html": _heavy_page(number, bodies) for number in range(HEAVY_PAGES)}
    return [f"/{_name(0)}.html"], made


def _name(number: int) -> str:
    """In letters: one page below hundreds of numbers looks like a trap, and is left alone."""
    return "".join(chr(ord("a") + int(digit)) for digit in f"{number:03}")


def _heavy_page(number: int, bodies: Iterator[bytes]) -> bytes:
    """Its links lead to the pages that follow. Those that the text lacks are put at the end."""
    text = f"<!DOCTYPE html><html><head><title>Page {number}</title></head><body>".encode()
    targets = iter([(number + 1 + step) % HEAVY_PAGES for step in range(HEAVY_LINKS)])
    while len(text) < HEAVY_BYTES:
        text += _LINK.sub(lambda link: _lead_to(next(targets, None), link[1]), next(bodies))
    more = b"".join(b"<p>%b</p>" % _lead_to(target, b"more") for target in targets)
    return text[:HEAVY_BYTES].rpartition(b"<")[0] + more + b"</body></html>"


def _lead_to(target: int | None, words: bytes) -> bytes:
    words = _ANCHOR.sub(b"", words)
    return (
        words if target is None else b'<a href="%b.html">%b</a>' % (_name(target).encode(), words)
    )


def write(folder: Path, pages: Pages, encodings: Sequence[str]) -> None:
    """Each page of the tree as a file of its own, and packed beside it."""
    for path, body in pages.items():
        file = folder / TREE / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        _write_packed(file, body, encodings)


def repeat(folder: Path, firsts: Sequence[str], copies: int, encodings: Sequence[str]) -> None:
    """Lead from the index to so many copies of the tree."""
    anchors = []
    for number in range(copies):
        name = _name(number)
        (folder / name).symlink_to(TREE, target_is_directory=True)
        anchors += [f'<p><a href="/{name}{first}">{name}{first}</a></p>' for first in firsts]
    head = "<!DOCTYPE html><html><head><title>Copies</title></head><body>"
    index = f"{head}{''.join(anchors)}</body></html>"
    _write_packed(folder / "index.html", index.encode(), encodings)


def _write_packed(file: Path, body: bytes, encodings: Sequence[str]) -> None:
    file.write_bytes(body)
    if "gzip" in encodings:
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(body, GZIP_LEVEL))
    if "br" in encodings:
        packed = brotli.compress(body, quality=BROTLI_QUALITY)
        file.with_name(f"{file.name}.br").write_bytes(packed)
