"""Finds a page in an archive: by the index where it is current, else looking through it all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from crawlproj.errors import CrawlError
from crawlproj.fetch.unpacking import TooLarge, Unreadable, unpack
from crawlproj.output.archive import files, index, records
from crawlproj.output.archive.index import Entry
from crawlproj.output.archive.reading import Record, parsed, record_at
from crawlproj.output.archive.surt import surt

MOST_BYTES = 1 << 30
"""Of a body that is unpacked."""


class NotThere(CrawlError):
    """The archive has no such page."""


class Page(NamedTuple):
    """What the archive has of a URL."""

    entry: Entry
    head: bytes
    body: bytes
    """Packed as it came."""

    def payload(self) -> bytes:
        """The body, unpacked."""
        encodings = [parsed(self.head).headers.get("content-encoding", "").encode()]
        if not self.body or not encodings[0]:
            return self.body
        try:
            return unpack(self.body, encodings, MOST_BYTES)[0]
        except (TooLarge, Unreadable) as error:
            url = self.entry.fields.get("url", "")
            raise CrawlError(f"{url}: {error}; --raw gives it as it came") from None


def find(folder: Path, url: str) -> Page:
    """The newest capture of a URL, with the payload that it refers to if it is a revisit."""
    found = list(_captures(folder, url))
    exact = [entry for entry in found if entry.fields.get("url") == url]
    if not found:
        raise NotThere(f"{url} is not in this archive")
    return _page(folder, max(exact or found, key=_preference))


def _page(folder: Path, entry: Entry) -> Page:
    with _opened(folder, entry) as file:
        record = _record(file, entry)
        head = record.read_head()
        if record.type != records.REVISIT:
            return Page(entry, head, _rest(record))
        if "warc-payload-digest" not in record.headers:
            return _unmodified(folder, entry, record.url)
        return Page(entry, head, _original_body(folder, record))


def _unmodified(folder: Path, revisit: Entry, url: str) -> Page:
    """What a 304 was said of, which names neither digest nor date: the newest page before it, with
    headers of its own, which tell how it is packed."""
    earlier = [
        entry
        for entry in _captures(folder, url)
        if entry.fields.get("url") == url
        and str(entry.fields.get("status", "")).startswith("2")
        and entry.timestamp <= revisit.timestamp
    ]
    if not earlier:
        raise NotThere(
            f"{url} had not changed since a page that is not in this archive: it is in that of "
            "another machine, or of the crawl before"
        )
    return _page(folder, max(earlier, key=_preference))


def _preference(entry: Entry) -> tuple[str, bool]:
    """The newest; within a second, one that was answered well."""
    return entry.timestamp, str(entry.fields.get("status", "")).startswith("2")


def _captures(folder: Path, url: str) -> Iterator[Entry]:
    key = surt(url)
    if index.state_of(folder) != "current":
        yield from (one for one in index.entries(files.files_of(folder)) if one.key == key)
        return
    prefix = f"{key} ".encode()
    with (folder / index.NAME).open("rb") as file:
        _seek(file, prefix)
        for line in file:
            if not line.startswith(prefix):
                return
            if entry := index.read_line(line.decode("ascii", "replace")):
                yield entry


def _seek(file: IO[bytes], prefix: bytes) -> None:
    """To the first line that is not before this one."""
    low, high = 0, file.seek(0, 2)
    while low < high:
        middle = (low + high) // 2
        file.seek(middle)
        if middle:
            file.readline()
        line = file.readline()
        if line and line < prefix:
            low = middle + 1
        else:
            high = middle
    file.seek(low)
    if low:
        file.readline()


def _original_body(folder: Path, revisit: Record) -> bytes:
    headers = revisit.headers
    url = headers.get("warc-refers-to-target-uri", "")
    digest = headers.get("warc-payload-digest", "")
    for entry in _captures(folder, url) if url else ():
        if entry.fields.get("digest") == digest and entry.fields.get("mime") != "warc/revisit":
            with _opened(folder, entry) as file:
                record = _record(file, entry)
                record.read_head()
                return _rest(record)
    raise NotThere(
        f"{revisit.url} has the same payload as {url}, which is not in this archive: it is in that "
        "of another machine"
    )


def _opened(folder: Path, entry: Entry) -> IO[bytes]:
    """The file of an entry, which is in this folder whatever the index says."""
    name = Path(str(entry.fields.get("filename", ""))).name
    return (folder / name).open("rb")


def _record(file: IO[bytes], entry: Entry) -> Record:
    offset = str(entry.fields.get("offset", ""))
    if not offset.isdecimal():
        raise CrawlError("the index is damaged: --index writes it anew")
    return record_at(file, int(offset))


def _rest(record: Record) -> bytes:
    pieces, size = [], 0
    while piece := record.read():
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BYTES:
            raise CrawlError(f"{record.url} has more than {MOST_BYTES} bytes")
    record.finish()
    if record.damage:
        raise CrawlError(f"the record of {record.url} is damaged: {record.damage}")
    return b"".join(pieces)
