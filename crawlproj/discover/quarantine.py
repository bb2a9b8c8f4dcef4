"""The URL patterns that are set aside, as one worker knows them.

A worker that has enough evidence against a pattern (patterns.py) sets its URLs aside from then on.
The first such URL makes the pattern known in Redis (frontier/lua/_patterns.lua), where other
workers look once a second. A pattern that a user has released stays so for the rest of the crawl.
"""

from __future__ import annotations

import logging
import time

from crawlproj.discover.patterns import Evidence
from crawlproj.discover.url_shapes import any_query, forms_of_copies
from crawlproj.frontier import pattern_store
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.outcomes import SetAside
from crawlproj.urls import Url

logger = logging.getLogger(__name__)

SET_ASIDE_REASON = "pattern"
"""How the ledger counts a URL that was set aside, and what its key begins with."""

REPEATED, QUERIES, COPIES = "repeated", "queries", "copies"

LOOK_EVERY_S = 1.0
MOST_OF_TIME = 0.05
"""Of a worker's time that reading them takes: a crawl may have 100,000, all read at once."""
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
        self._patterns: dict[str, dict[str, str]] = {}
        self._own: dict[tuple[str, str], str] = {}
        self._released: set[tuple[str, str]] = set()
        self._changes: list[int] = []
        self._look_every_s = look_every_s
        self._look_at = 0.0

    def outcome_for(self, url: Url) -> SetAside | None:
        """The pattern because of which a URL is set aside, if there is one."""
        known = self._patterns.get(url.host)
        if not known:
            return None
        names = forms_of_copies(url.path)
        if "?" in url.path:
            names.append(any_query(url.path))
        return next((SetAside(name, known[name]) for name in names if name in known), None)

    def weigh(self, url: Url, body: bytes, leads_on: bool) -> None:
        """A page was fetched; `leads_on` if it has links that are new."""
        if pattern := self._evidence.weigh(url, body, leads_on):
            self._set_aside(url.host, pattern, REPEATED)

    def weigh_near(self, url: Url, is_copy: bool) -> None:
        """A page was found to be a near-copy of another, or not to be."""
        if form := self._evidence.weigh_near(url, is_copy):
            self._set_aside(url.host, form, COPIES)

    def count_query(self, url: Url) -> None:
        """A new URL is on its way to the frontier."""
        if pattern := self._evidence.count_query(url):
            self._set_aside(url.host, pattern, QUERIES)

    async def refresh(self) -> None:
        """Learn what other workers and users have decided; asks at most once a second, and less
        often where there is much to read."""
        began_s = time.monotonic()
        if began_s < self._look_at:
            return
        self._look_at = began_s + self._look_every_s
        if await self._learn():
            ended_s = time.monotonic()
            self._look_at = max(self._look_at, ended_s + (ended_s - began_s) / MOST_OF_TIME)

    async def _learn(self) -> bool:
        """Read all of them if there is a change; False if there is none."""
        changes = await pattern_store.changes_of(self._frontier.shards)
        if changes == self._changes or not any(changes):
            return False
        known = await pattern_store.patterns_of(self._frontier.shards)
        self._changes = changes
        self._released = {(one.host, one.pattern) for one in known if one.released_ms}
        self._patterns = {}
        for one in known:
            self._own.pop((one.host, one.pattern), None)
            self._add(one.host, one.pattern, one.why)
        for (host, pattern), why in self._own.items():
            self._add(host, pattern, why)
        return True

    def _set_aside(self, host: str, pattern: str, why: str) -> None:
        is_known = pattern in self._patterns.get(host, ())
        if is_known or (host, pattern) in self._released:
            return
        if len(self._patterns.get(host, ())) >= MOST_OF_A_HOST:
            return
        self._own[host, pattern] = why
        self._add(host, pattern, why)
        if len(self._own) > MOST_OWN:
            self._remove(*next(iter(self._own)))
        logger.warning("%s%s is set aside (%s): see scrapy patterns", host, pattern, why)

    def _add(self, host: str, pattern: str, why: str) -> None:
        if (host, pattern) not in self._released:
            self._patterns.setdefault(host, {})[pattern] = why

    def _remove(self, host: str, pattern: str) -> None:
        del self._own[host, pattern]
        del self._patterns[host][pattern]
        if not self._patterns[host]:
            del self._patterns[host]
