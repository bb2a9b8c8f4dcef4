"""Notes, in the folder of a crawl that speculates, leases whose URL another worker settled first:
what rows they have left, merging passes over (loading.py, own_items.py)."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from crawlproj.items import utc_timestamp
from crawlproj.output.kinds import CSV, REFUSED


class Refused(NamedTuple):
    """A lease, and who held it; "" if others may have written failures for it that count."""

    url: str
    lease: int
    worker: str = ""


def note_refused(folder: Path, by: str, refused: Iterable[Refused]) -> None:
    """Append them to the file of the worker that says so, on disk."""
    at = utc_timestamp()
    path = folder / f"{REFUSED.name}-{by}.{CSV}"
    with path.open("a", newline="", encoding="utf-8", errors="replace") as file:
        writer = csv.writer(file)
        if not file.tell():
            writer.writerow(REFUSED.columns)
        writer.writerows((*one, at) for one in refused)
        file.flush()
        os.fsync(file.fileno())
