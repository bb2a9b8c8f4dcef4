"""The files of attributes: `attributes-<worker>-<number>.jsonl` in the crawl's folder.

Pages are taken by the event loop and read in turn by a thread, which asks a process (reader.py).
Whoever saves waits for the pages that were taken before, and has their rows on disk: so a page is
settled only after its row is there. Pages that wait are bounded by `is_behind`, at which the worker
begins no more.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from crawlproj.output.attributes.reader import PageReader
from crawlproj.output.attributes.rows import MAX_BODY
from crawlproj.output.kinds import ATTRIBUTES
from crawlproj.output.part_series import PartSeries
from crawlproj.running import PageToRead

MOST_PAGES, MOST_BYTES = 200, 32 << 20
"""Pages that may wait, and bytes of them."""


class AttributeTable:
    """What one worker writes. One thread adds pages and closes, any may save."""

    def __init__(
        self, folder: Path, worker: str, rule: str | None, *, rotate_bytes: float, rotate_s: float
    ) -> None:
        self._parts = PartSeries(
            folder,
            f"{ATTRIBUTES.name}-{worker}",
            ".jsonl",
            rotate_bytes=rotate_bytes,
            rotate_s=rotate_s,
        )
        self._reader = PageReader(rule)
        self._thread = ThreadPoolExecutor(1, "attributes")
        self._waiting: deque[Future[None]] = deque()
        self._waiting_bytes = 0
        self._error: Exception | None = None
        self._counting = threading.Lock()
        self._saving = threading.RLock()

    def add(self, page: PageToRead) -> None:
        """Have a page read."""
        page = page._replace(body=page.body[:MAX_BODY])
        with self._counting:
            self._waiting_bytes += len(page.body)
        self._waiting.append(self._thread.submit(self._read, page))

    @property
    def is_behind(self) -> bool:
        """Whether so much waits that no more should come."""
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft()
        return len(self._waiting) >= MOST_PAGES or self._waiting_bytes >= MOST_BYTES

    def save(self) -> None:
        """Have the rows of all pages on disk that were added before this call, or raise OSError."""
        for last in list(self._waiting)[-1:]:
            wait([last])  # they are read in turn
        if self._error is not None:
            raise self._error
        with self._saving:
            self._parts.save()

    def close(self) -> None:
        """Save, end the file and the process."""
        self._thread.shutdown()
        self._reader.close()
        with self._saving:
            self._parts.end_part()
            self.save()

    def _read(self, page: PageToRead) -> None:
        try:
            if self._error is not None:
                return  # nothing more is settled
            line = self._reader.read(page)
            if line:
                with self._saving:
                    self._parts.write(line)
        except Exception as error:
            self._error = error  # whoever saves must know: a row is missing
            raise
        finally:
            with self._counting:
                self._waiting_bytes -= len(page.body)
