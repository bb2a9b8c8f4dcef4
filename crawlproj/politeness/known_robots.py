"""What one worker knows of robots.txt files. What is found is kept in Redis for all workers, for a
day (robots_store.py), read, and remembered here for an hour (robots_memory.py).

Knows nothing of how a robots.txt is asked for (permission.py) and fetched (robots_fetch.py).
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from crawlproj.politeness import robots
from crawlproj.politeness.robot_rules import RobotsRules
from crawlproj.politeness.robots_memory import NOT_CONTACTED, UNREACHABLE, Known, Memory, bound
from crawlproj.politeness.robots_search import RobotsSearch
from crawlproj.politeness.robots_store import KEPT_S, RobotsStore

if TYPE_CHECKING:
    from crawlproj.frontier.frontier import Frontier

T = TypeVar("T")

RECHECK_S = 3600
"""For how long a worker goes by what it remembers."""

LONG_BYTES = 8 * 1024
"""A longer file takes milliseconds to read, in which a worker has better things to do."""

MOST_ELSEWHERE = 64
"""Files that are no host's robots.txt, but were reached by redirects from one."""

CLOCK_S = 1
"""By how much the age of a key may be overrated: Redis tells it in whole seconds."""


class KnownRobots:
    """The files of all hosts that this worker has to do with."""

    def __init__(self, frontier: Frontier, *, user_agent: str, longest_pause_s: float) -> None:
        self.store = RobotsStore(frontier)
        self.memory = Memory()
        self.on_sitemaps: Callable[[str, list[str]], None] | None = None
        """To be told of a host and the sitemaps that its robots.txt names."""
        self._user_agent = user_agent
        self._longest_pause_s = longest_pause_s
        # By their URLs, with how long they are good.
        self._elsewhere: OrderedDict[str, tuple[bytes, float]] = OrderedDict()
        self._being_read: dict[str, asyncio.Task[None]] = {}
        self._reading = asyncio.Lock()

    # What is made known

    async def keep_fetched(
        self,
        search: RobotsSearch,
        at_host: str,
        record: bytes,
        for_s: int,
        rules: RobotsRules | None,
    ) -> None:
        """What a host has answered, to all workers, for every host whose robots.txt it is."""
        for host in search.concerned(at_host):
            its_own = record if host == at_host else robots.for_another_host(record)
            if await self._keep(host, its_own, for_s):
                self._remember(host, its_own, for_s, rules)
            else:
                self.memory.forget(host)
        if not search.is_own_of(at_host):
            self._elsewhere[search.url] = record, time.monotonic() + min(for_s, RECHECK_S)
            bound(self._elsewhere, MOST_ELSEWHERE)
        self._offer_sitemaps(search.host)

    async def keep(self, search: RobotsSearch, record: bytes, for_s: int) -> None:
        """Keep what is known of another host for those whose robots.txt leads there. Workers that
        have pages of theirs read it."""
        for host in (search.host, *search.via):
            await self._keep(host, record, for_s)
            self.memory.forget(host)

    async def _keep(self, host: str, record: bytes, for_s: int) -> bool:
        """False if another worker has had what could not be had here."""
        if robots.is_denial(record):
            return await self.store.keep_denial(host, record, for_s)
        await self.store.keep(host, record, for_s)
        return True

    def elsewhere(self, url: str) -> tuple[bytes, int]:
        """What was found at a URL that is no host's own robots.txt, and for how many seconds it is
        good: 0 if it is not known."""
        record, until = self._elsewhere.get(url, (b"", 0.0))
        return record, max(0, int(until - time.monotonic()))

    def _offer_sitemaps(self, host: str) -> None:
        known = self.memory.last(host)
        if self.on_sitemaps is not None and known and known.rules:
            self.on_sitemaps(host, known.rules.sitemaps)

    # What is read and remembered

    async def digest(self, status: int, body: bytes) -> tuple[RobotsRules, bytes]:
        """The rules of a file that has come, and the record that is kept of it."""
        read = partial(robots.digest, status, body, self._user_agent)
        return await self._off_the_loop(read, len(body))

    async def read_soon(
        self, host: str, record: bytes, for_s: int, *, names_sitemaps: bool = False
    ) -> None:
        """Have at hand what others have found; long rules later, and only their pages wait."""
        reading = self._read(host, record, for_s, names_sitemaps)
        if not robots.is_longer(record, LONG_BYTES):
            await reading
        elif host in self._being_read:
            reading.close()
        else:
            task = self._being_read[host] = asyncio.create_task(reading)
            task.add_done_callback(lambda _: self._being_read.pop(host, None))

    async def _read(self, host: str, record: bytes, for_s: int, names_sitemaps: bool) -> None:
        stored = robots.unpack(record)
        if stored is None:
            await self.store.clear(host)
            return
        rules = None
        if stored.verdict not in robots.DENIALS:
            read = partial(stored.rules, self._user_agent)
            rules = await self._off_the_loop(read, len(stored.body))
        self._remember(host, record, for_s, rules)
        if names_sitemaps:
            self._offer_sitemaps(host)

    async def _off_the_loop(self, read: Callable[[], T], size_bytes: int) -> T:
        """Read a file; long ones in another thread, one at a time, so that many of them leave room
        for what else needs threads."""
        if size_bytes <= LONG_BYTES:
            return read()
        async with self._reading:
            return await asyncio.to_thread(read)

    def _remember(self, host: str, record: bytes, for_s: int, rules: RobotsRules | None) -> None:
        now = time.monotonic()
        rest_s = self._first_rest_s(record, KEPT_S - for_s, rules) if rules else 0.0
        refusal = NOT_CONTACTED if robots.is_not_contacted(record) else UNREACHABLE
        self.memory.put(host, Known(rules, now + min(for_s, RECHECK_S), now + rest_s, refusal))
        self.store.let_go(host)

    def _first_rest_s(self, record: bytes, age_s: int, rules: RobotsRules) -> float:
        """What is left of a Crawl-delay that came from another host, where it was not kept. The age
        of a copy is not that of the request that led to it."""
        delay_s = min(rules.delay_s or 0.0, self._longest_pause_s)
        redirected, copied = robots.provenance(record)
        if copied:
            return delay_s
        return max(0.0, delay_s - max(0, age_s - CLOCK_S)) if redirected else 0.0

    async def close(self) -> None:
        """Leave unread what is being read."""
        for task in list(self._being_read.values()):
            task.cancel()
        await asyncio.gather(*self._being_read.values(), return_exceptions=True)
