"""Packs an archive into one file that replays in a browser: WACZ 1.1.1, a ZIP of WARC files, their
index, a list of pages, and a manifest with the hashes of all of it. What is torn is left out."""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from crawlproj.discover import links
from crawlproj.errors import ConfigError, CrawlError
from crawlproj.fetch.unpacking import TooLarge, Unreadable, unpack
from crawlproj.items import utc_timestamp
from crawlproj.output.archive import files, index, reading, records
from crawlproj.output.archive.index import Entry
from crawlproj.output.archive.reading import Head, Record
from crawlproj.output.watching import ReadingFile, Watch, unwatched
from crawlproj.output.whole_file import written_whole

VERSION = "1.1.1"
SUFFIX = ".wacz"
BLOCK_LINES = 1024
"""Of the index that are packed together."""
TITLE_BYTES = 1 << 16
"""Of a page in which its title is looked for."""
PIECE = 1 << 20
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_PAGES = {"format": "json-pages-1.0", "id": "pages", "title": "All pages"}


class Packed(NamedTuple):
    """What a WACZ holds."""

    files: int
    captures: int
    pages: int
    bytes: int


def write_wacz(folder: Path, target: Path, title: str, watch: Watch = unwatched) -> Packed:
    """Pack an archive; the file is there once it is complete."""
    if target.suffix != SUFFIX:
        raise ConfigError(f"--wacz {target}: its name has to end in {SUFFIX}")
    paths = files.files_of(folder)
    if not paths:
        raise CrawlError(f"{folder} has no WARC files")
    with (
        written_whole(target, sync=True) as unfinished,
        ZipFile(unfinished, "w", allowZip64=True) as zipped,
    ):
        packing = _Packing(zipped, folder, watch)
        captures = packing.add_index(paths)
        for path in paths:
            packing.add_warc(path)
        packing.add_manifest(title)
    return Packed(len(paths), captures, packing.pages, target.stat().st_size)


class _Packing:
    """One WACZ in the making."""

    def __init__(self, zipped: ZipFile, folder: Path, watch: Watch) -> None:
        self._watch = watch
        self._zipped = zipped
        self._folder = folder
        self._resources: list[dict[str, Any]] = []
        self._scratch = folder / f".pages-{os.getpid()}.jsonl"
        self.pages = 0

    def add_index(self, paths: list[Path]) -> int:
        """The index in packed blocks, the index of those, and the list of pages."""
        with self._scratch.open("w+b") as pages:
            self._scratch.unlink()
            pages.write(json.dumps(_PAGES).encode() + b"\n")
            found = index.entries(paths, lambda *capture: self._note(pages, *capture), self._watch)
            lines = index.sorted_lines((entry.to_line() for entry in found), self._folder)
            blocks = _Blocks(lines)
            self._add("indexes/index.cdx.gz", blocks.packed(), ZIP_STORED)
            self._add("indexes/index.idx", [blocks.to_index()], ZIP_DEFLATED)
            pages.seek(0)
            self._add("pages/pages.jsonl", _pieces(pages), ZIP_DEFLATED)
        return blocks.lines

    def add_warc(self, path: Path) -> None:
        end = reading.torn_from(path)
        with path.open("rb") as file:
            self._watch(f"Packing {path.name}", ReadingFile(path, file))
            self._add(f"archive/{path.name}", _pieces(file, end), ZIP_STORED)

    def add_manifest(self, title: str) -> None:
        manifest = {
            "profile": "data-package",
            "wacz_version": VERSION,
            "title": title,
            "created": utc_timestamp(),
            "software": "crawlproj",
            "resources": self._resources,
        }
        text = json.dumps(manifest, indent=2).encode()
        digest = {"path": "datapackage.json", "hash": f"sha256:{sha256(text).hexdigest()}"}
        self._add("datapackage.json", [text], ZIP_DEFLATED)
        self._add("datapackage-digest.json", [json.dumps(digest).encode()], ZIP_DEFLATED)

    def _add(self, path: str, pieces: Iterable[bytes], how: int) -> None:
        info = ZipInfo(path, time.gmtime()[:6])
        info.compress_type = how
        digest, size = sha256(), 0
        with self._zipped.open(info, "w", force_zip64=True) as file:
            for piece in pieces:
                file.write(piece)
                digest.update(piece)
                size += len(piece)
        name = path.rpartition("/")[2]
        self._resources.append(
            {"name": name, "path": path, "hash": f"sha256:{digest.hexdigest()}", "bytes": size}
        )

    def _note(self, pages: IO[bytes], record: Record, head: Head, entry: Entry) -> None:
        """List a capture if it is a page."""
        is_page = head.status == "200" and entry.fields.get("mime", "").lower() in _HTML
        if not is_page or record.type != records.RESPONSE:
            return
        page = {
            "id": record.headers.get("warc-record-id", "").strip("<>").removeprefix("urn:uuid:"),
            "url": record.url,
            "ts": record.headers.get("warc-date", ""),
        }
        if title := _title(record, head):
            page["title"] = title
        pages.write(json.dumps(page).encode() + b"\n")
        self.pages += 1


class _Blocks:
    """The lines of an index, some at a time packed, and where each block begins."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        meta = {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}
        self._index = [f"!meta 0 {json.dumps(meta)}\n"]
        self._offset = 0
        self.lines = 0

    def packed(self) -> Iterator[bytes]:
        block: list[str] = []
        for line in self._lines:
            block.append(line)
            if len(block) == BLOCK_LINES:
                yield self._pack(block)
                block = []
        if block:
            yield self._pack(block)

    def to_index(self) -> bytes:
        return "".join(self._index).encode()

    def _pack(self, block: list[str]) -> bytes:
        packer = zlib.compressobj(wbits=31)
        packed = packer.compress("".join(block).encode()) + packer.flush()
        about = {
            "offset": self._offset,
            "length": len(packed),
            "digest": f"sha256:{sha256(packed).hexdigest()}",
        }
        key = block[0].partition("{")[0].strip()
        self._index.append(f"{key} {json.dumps(about)}\n")
        self._offset += len(packed)
        self.lines += len(block)
        return packed


def _title(record: Record, head: Head) -> str:
    """What a page is called, if that is to be seen at its beginning."""
    body = b""
    while len(body) < TITLE_BYTES and (piece := record.read()):
        body += piece
    encoding = head.headers.get("content-encoding", "").encode()
    if encoding:
        with suppress(TooLarge, Unreadable):
            return _title_in(unpack(body, [encoding], 16 * TITLE_BYTES)[0], head)
        return ""
    return _title_in(body, head)


def _title_in(body: bytes, head: Head) -> str:
    charset = head.headers.get("content-type", "").partition("charset=")[2].strip("\"' ;")
    return links.extract(body[:TITLE_BYTES], charset or None, max_links=0).title


def _pieces(file: IO[bytes], end: int | None = None) -> Iterator[bytes]:
    left = end if end is not None else file.seek(0, 2)
    file.seek(0)
    while left > 0 and (piece := file.read(min(PIECE, left))):
        left -= len(piece)
        yield piece
