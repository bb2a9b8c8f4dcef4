"""The URL patterns that all workers leave alone, as one of them knows it.

A worker whose own evidence (patterns.py) speaks against a pattern sets its URLs aside from then
on; the first of them that reaches Redis tells the others (frontier/lua/_patterns.lua), who look
once a second. A pattern that a user has released stays free for the rest of the crawl.
"""

from __future__ import annotations

import logging
import time

from crawlproj.discover.patterns import Evidence
from crawlproj.discover.shapes import any_query, pattern_of
from crawlproj.frontier import pattern_store
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.outcomes import SetAside
from crawlproj.urls import Url

logger = logging.getLogger(__name__)

REASON = "pattern"
"""How the ledger counts a URL that was set aside, and what its key begins with."""

REPEATED, QUERIES = "repeated", "queries"

LOOK_EVERY_S = 1.0
MOST_OF_A_HOST = 100
MOST_OWN = 10_000
"""Verdicts that Redis has not confirmed (it may have too many); beyond, the oldest is forgotten."""


class Quarantine:
    """Which URLs to set aside, for one worker."""

    def __init__(
        self, frontier: Frontier, evidence: Evidence, look_every_s: float = LOOK_EVERY_S
    ) -> None:
        self._frontier = frontier
        self._evidence = evidence
        self._held: dict[str, dict[str, str]] = {}
        self._own: dict[tuple[str, str], str] = {}
        self._released: set[tuple[str, str]] = set()
        self._changes: list[int] = []
        self._look_every_s = look_every_s
        self._look_at = 0.0

    def holds(self, url: Url) -> SetAside | None:
        """The pattern because of which a URL is set aside, if there is one."""
        held = self._held.get(url.host)
        if not held:
            return None
        names = [pattern_of(url.path)]
        if "?" in url.path:
            names.append(any_query(url.path))
        return next((SetAside(name, held[name]) for name in names if name in held), None)

    def weigh(self, url: Url, body: bytes, leads_on: bool) -> None:
        """A page was fetched; `leads_on` if it has links that are new."""
        if pattern := self._evidence.weigh(url, body, leads_on):
            self._confine(url.host, pattern, REPEATED)

    def count_query(self, url: Url) -> None:
        """A new URL is on its way to the frontier."""
        if pattern := self._evidence.count_query(url):
            self._confine(url.host, pattern, QUERIES)

    async def refresh(self) -> None:
        """Hear what other workers and users have decided; asks at most once a second."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + self._look_every_s
        changes = [await pattern_store.changes(shard) for shard in self._frontier.shards]
        if changes == self._changes or not any(changes):
            return
        known = [
            one for shard in self._frontier.shards for one in await pattern_store.patterns(shard)
        ]
        self._changes = changes
        self._released = {(one.host, one.pattern) for one in known if one.released_ms}
        self._held = {}
        for one in known:
            self._own.pop((one.host, one.pattern), None)
            self._hold(one.host, one.pattern, one.why)
        for (host, pattern), why in self._own.items():
            self._hold(host, pattern, why)

    def _confine(self, host: str, pattern: str, why: str) -> None:
        is_held = pattern in self._held.get(host, ())
        if is_held or (host, pattern) in self._released:
            return
        if len(self._held.get(host, ())) >= MOST_OF_A_HOST:
            return
        self._own[host, pattern] = why
        self._hold(host, pattern, why)
        if len(self._own) > MOST_OWN:
            self._free(*next(iter(self._own)))
        logger.warning("%s%s is set aside (%s): see scrapy patterns", host, pattern, why)

    def _hold(self, host: str, pattern: str, why: str) -> None:
        if (host, pattern) not in self._released:
            self._held.setdefault(host, {})[pattern] = why

    def _free(self, host: str, pattern: str) -> None:
        del self._own[host, pattern]
        del self._held[host][pattern]
        if not self._held[host]:
            del self._held[host]
