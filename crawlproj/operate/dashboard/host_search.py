"""Finds hosts among millions: by a part of their name, in an order.

Redis has no order of hosts by pages or failures, so all of them are looked at, a thousand a call,
gently, and the first of that order are kept: memory and what is sent to a browser stay small. Who
asks is told how far it is; all who ask the same share one search.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from redis.exceptions import RedisError

from crawlproj.errors import CrawlError
from crawlproj.frontier.browsing import START, browse
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.survey import HostFound, tick
from crawlproj.operate import host_status
from crawlproj.operate.dashboard.polling import Gently
from crawlproj.operate.host_status import HostStatus

SHOWN = 100
FRESH_S = 4.0
"""For how long what a search has found is good."""
FIRST_S = 0.15
"""How long who asks waits for a search that has just begun: a small crawl is through by then."""
UNWANTED_S = 5.0
"""A search that nobody has asked after for so long is given up."""
MOST_AT_ONCE = 4
"""Searches; the oldest is given up for another."""

ORDERS: dict[str, Callable[[Row], Any]] = {
    "queued": lambda row: row.host.queued,
    "pages": lambda row: row.host.pages,
    "pause": lambda row: row.host.pause_s,
    "next": lambda row: -row.next_s,
    "failures": lambda row: (row.host.failures, row.host.held_s),
    "held": lambda row: row.host.held_s,
    "host": lambda row: [*(-ord(letter) for letter in row.host.host), 1],
}
"""How hosts can be ordered, the first to be shown with the largest value."""


class Row(NamedTuple):
    """A host, and in how many seconds it may be contacted."""

    host: HostStatus
    next_s: float


class Question(NamedTuple):
    """What is looked for."""

    crawl: str
    text: str = ""
    order: str = "queued"


@dataclass
class Search:
    """One search, and what it has found so far."""

    question: Question
    total: int = 0
    looked_at: int = 0
    matching: int = 0
    is_over: bool = False
    ended_at_s: float = 0.0
    asked_at_s: float = field(default_factory=time.monotonic)
    is_given_up: bool = False
    error: str = ""
    best: list[tuple[Any, int, Row]] = field(default_factory=list)

    async def run(self, frontier: Frontier) -> None:
        """Look through all shards."""
        try:
            await self._look(frontier)
        except (RedisError, CrawlError) as error:
            self.error = " ".join(str(error).split())
        finally:
            self.is_over, self.ended_at_s = True, time.monotonic()

    async def _look(self, frontier: Frontier) -> None:
        if not await frontier.attach(only_to_look=True):
            return
        self.total = (await tick(frontier)).hosts
        gently = Gently()
        for shard in frontier.shards:
            cursor = START
            while True:
                await gently.turn()
                piece = await browse(shard, cursor, self.question.text)
                self.looked_at += piece.looked_at
                self._note(frontier, piece.found, piece.now_ms)
                if piece.is_last:
                    break
                if time.monotonic() - self.asked_at_s > UNWANTED_S:
                    self.is_given_up = True
                    return
                cursor = piece.cursor

    def _note(self, frontier: Frontier, found: list[tuple[HostFound, float]], now_ms: int) -> None:
        value = ORDERS[self.question.order]
        for one, due_ms in found:
            with suppress(ValueError, TypeError):  # a damaged record is the scripts' to mend
                host = host_status.read_one(frontier.plan, one, now_ms)
                next_s = round(max(0.0, due_ms - now_ms) / 1000, 1)
                row = Row(host, max(next_s, host.held_s))
                self.matching += 1
                entry = value(row), self.matching, row
                put = heapq.heappush if len(self.best) < SHOWN else heapq.heappushpop
                put(self.best, entry)

    def answer(self) -> dict[str, Any]:
        """What a browser is sent."""
        rows = [row for _, _, row in sorted(self.best, key=lambda entry: entry[:2], reverse=True)]
        return {
            "total": self.total,
            "looked_at": min(self.looked_at, self.total),
            "matching": self.matching,
            "is_over": self.is_over,
            "error": self.error,
            "hosts": [_shown(row) for row in rows],
        }


class HostSearches:
    """The searches of all who look."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._running: OrderedDict[Question, tuple[Search, asyncio.Task[None]]] = OrderedDict()

    async def ask(self, question: Question) -> dict[str, Any]:
        """What is found by now. A search whose answer is no longer fresh begins anew; until the new
        one is through, its old answer stands."""
        search, task = self._running.get(question, (None, None))
        if search is None or _is_stale(search):
            old, search = search, Search(question)
            task = asyncio.create_task(
                search.run(Frontier(self._client, question.crawl, "dashboard"))
            )
            self._remember(question, search, task)
            await asyncio.wait([task], timeout=FIRST_S)
            if old is not None and not search.is_over and not old.error:
                return {**old.answer(), "is_over": False, "looked_at": search.looked_at}
        search.asked_at_s = time.monotonic()
        return search.answer()

    def _remember(self, question: Question, search: Search, task: asyncio.Task[None]) -> None:
        self._running.pop(question, None)
        self._running[question] = search, task
        while len(self._running) > MOST_AT_ONCE:
            _, (_, oldest) = self._running.popitem(last=False)
            oldest.cancel()


def _shown(row: Row) -> dict[str, Any]:
    return {**asdict(row.host), "doing": row.host.doing, "next_s": row.next_s}


def _is_stale(search: Search) -> bool:
    age_s = time.monotonic() - search.ended_at_s
    return search.is_over and (search.is_given_up or age_s > FRESH_S)
