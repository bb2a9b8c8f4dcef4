"""Parts of items of spiders' own classes, each with a file beside it that says of which lease an
item is.

Items have no key. When a request is made again, because its worker died before it was settled, its
items are written again; `scrapy merge` keeps those of the last lease. The file of
leases has a line for each item, and is on disk before its items are: an item on disk has its lease.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawlproj.frontier.meta_keys import LEASE, REQUEST
from crawlproj.output.kinds import ITEMS, JSONL, LEASES_SUFFIX
from crawlproj.output.row_file import RowFile, open_with_folder

if TYPE_CHECKING:
    from scrapy.http import Response

NO_LEASE = b"0 0\n"
"""Of an item that came with no page."""

PAGE_DIGITS = 16
"""Of the hash of a URL."""


def holds_items(path: Path) -> bool:
    """True for a part of items, by its name."""
    return path.name.startswith(f"{ITEMS}-") and path.name.endswith(f".{JSONL}")


def lease_line(response: Response | None) -> bytes:
    """The line of the items that come with a response: the lease, and what its request is known by:
    a hash of the URL, and behind it the identity of a request that is no plain GET."""
    request = response.request if response is not None else None
    lease = request.meta.get(LEASE) if request is not None else None
    if request is None or not lease:
        return NO_LEASE
    known_by = page_hash(request.url) + request.meta.get(REQUEST, "")
    return f"{lease[1]} {known_by}\n".encode()


def page_hash(url: str) -> str:
    """By which files of leases know a page."""
    return blake2b(url.encode(errors="replace"), digest_size=PAGE_DIGITS // 2).hexdigest()


class ItemsFile(RowFile):
    """A part of items; each write is one item. `line` says what its lease is."""

    def __init__(self, path: Path, mode: str, line: Callable[[], bytes]) -> None:
        self._line = line
        leases = path.with_suffix(LEASES_SUFFIX)
        self._leases = RowFile(partial(open_with_folder, leases, mode))
        super().__init__(partial(open_with_folder, path, mode))

    def write(self, data: Any) -> int:
        self._leases.write(self._line())
        return super().write(data)

    def _save_companion(self, *, is_last: bool) -> None:
        if is_last:
            self._leases.close()
        else:
            self._leases.save()
