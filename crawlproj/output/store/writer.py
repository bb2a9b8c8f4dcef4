"""Gathers pages and has them committed, in a thread: BATCH_PAGES at a time, or what there is after
BATCH_S seconds.

Pages have positions, in the order in which they come; whoever settles a page waits until what is
committed has reached its own. A database that is away is waited for: pages stay here, up to a
number of bytes, from which on a worker begins no more.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from crawlproj.errors import ConfigError
from crawlproj.output.store.tables import RowRefused, StoreAway, StoredPage

if TYPE_CHECKING:
    from crawlproj.frontier.messages import Settlement
    from crawlproj.frontier.outcomes import Attempt
    from crawlproj.output.store.tables import Database

logger = logging.getLogger(__name__)

BATCH_PAGES = 50
BATCH_S = 5.0
BATCH_BYTES = 8 << 20
"""Of bodies: a batch of large pages is smaller."""

MOST_WAITING_BYTES = 64 << 20
"""Of bodies that wait: a worker that has so many begins no more pages."""

FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 2.0


class PageWriter:
    """What one worker keeps. `add`, `commit_now` and what is asked of it are for the event loop."""

    def __init__(self, database: Database, crawl: str, epoch: Callable[[], str]) -> None:
        self._database = database
        self._crawl, self._epoch = crawl, epoch
        self.added = 0
        """The position of the last page that came."""
        self.committed = 0
        """The position up to which all are in the database."""
        self.on_commit: Callable[[], None] = _nothing
        """Called in the event loop after each commit."""
        self.on_error: Callable[[Exception], None] = _no_one_told
        """Called in the event loop when this has failed, and writes no more."""
        self.refused = 0
        """Pages of which the database has refused a row."""
        self._wanted_now = 0
        self._waiting: deque[tuple[StoredPage, float]] = deque()
        self._waiting_bytes = 0
        self._expected_bytes = 0
        self._is_closing = False
        self._changed = threading.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        # No executor: at the end of the process that would wait for a server that hangs.
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)

    def start(self) -> None:
        """Begin to write; the database is open."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def expect(self, ended: Attempt) -> None:
        """A page has ended: its body waits, though it is taken in only when its worker comes to it,
        which a full disk or a Redis that is away may delay."""
        self._expected_bytes += _body_bytes(ended)

    def take(self, ended: Attempt, settlement: Settlement) -> int:
        """Take in a page that is done; returns its position, or 0 if there is none to keep."""
        self._expected_bytes -= _body_bytes(ended)
        found, ended.stored = ended.stored, None
        if found is None or settlement.verdict != "done":
            return 0
        return self.add(StoredPage(*found, self._crawl, self._epoch()))

    def add(self, page: StoredPage) -> int:
        """Take in a page; returns its position."""
        with self._changed:
            self._waiting.append((page, time.monotonic()))
            self._waiting_bytes += len(page.body)
            self.added += 1
            self._changed.notify()
        return self.added

    def commit_now(self) -> None:
        """Do not wait for more pages: nothing else is under way."""
        with self._changed:
            self._wanted_now = self.added
            self._changed.notify()

    @property
    def is_full(self) -> bool:
        """True when so much waits that no more should come."""
        return self._waiting_bytes + self._expected_bytes >= MOST_WAITING_BYTES

    def close(self) -> None:
        """Stop; what is not committed by now is not."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(LONGEST_WAIT_S)
        if not self._thread.is_alive():
            self._database.close()

    # In the thread

    def _run(self) -> None:
        try:
            self._write_all()
        except Exception as error:
            self._call_in_loop(partial(self.on_error, error))

    def _write_all(self) -> None:
        while batch := self._next_batch():
            if not self._write_until_committed(batch):
                return
            with self._changed:
                self.committed += len(batch)
                self._waiting_bytes -= sum(len(one.body) for one in batch)
            self._call_in_loop(self._tell)

    def _call_in_loop(self, callback: Callable[[], None]) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(callback)

    def _tell(self) -> None:
        self.on_commit()

    def _next_batch(self) -> list[StoredPage]:
        """Wait for one; empty at the end."""
        with self._changed:
            while not self._is_closing:
                wait_s = self._left_s()
                if wait_s is not None and wait_s <= 0:
                    return self._take()
                self._changed.wait(wait_s)
        return []

    def _left_s(self) -> float | None:
        """How long to wait for more pages; None: until one comes."""
        if not self._waiting:
            return None
        is_enough = len(self._waiting) >= BATCH_PAGES or self._waiting_bytes >= BATCH_BYTES
        if is_enough or self._wanted_now > self.committed:
            return 0
        return self._waiting[0][1] + BATCH_S - time.monotonic()

    def _take(self) -> list[StoredPage]:
        batch: list[StoredPage] = []
        size = 0
        while self._waiting and len(batch) < BATCH_PAGES and size < BATCH_BYTES:
            batch.append(self._waiting.popleft()[0])
            size += len(batch[-1].body)
        return batch

    def _write_until_committed(self, batch: Sequence[StoredPage]) -> bool:
        """Repeat it for as long as the database is away; False at the end."""
        wait_s, away_since_s = FIRST_WAIT_S, None
        while not self._is_closing or away_since_s is None:
            try:
                self._write(batch)
            except (StoreAway, ConfigError) as error:
                if away_since_s is None:
                    away_since_s = time.monotonic()
                    logger.warning("The store is away (%s); waiting for it", _line(error))
            else:
                if away_since_s is not None:
                    away_s = time.monotonic() - away_since_s
                    logger.warning("The store is back after %.1f s", away_s)
                return True
            with self._changed:
                self._changed.wait_for(lambda: self._is_closing, wait_s)
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)
        return False

    def _write(self, batch: Sequence[StoredPage]) -> None:
        try:
            self._database.write(batch)
        except RowRefused as error:
            if len(batch) > 1:  # the others are not to blame
                for one in batch:
                    self._write([one])
                return
            self.refused += 1
            logger.error("The store refuses %s: %s", batch[0].page.url, _line(error))


def _body_bytes(ended: Attempt) -> int:
    return len(ended.stored[1]) if ended.stored else 0


def _nothing() -> None:
    """Nobody waits for commits."""


def _no_one_told(error: Exception) -> None:
    logger.error("The store cannot be written to any more", exc_info=error)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
