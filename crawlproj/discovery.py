"""From a page's links to the frontier, in bulk: no Request is made of a link before it is its turn.

Links are resolved, judged by the crawl's rules, checked against this worker's copy of the seen
filter, ranked, and collected for the next push. What is not followed is counted with its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from crawlproj.frontier.scoring import Candidate, Strategy, level
from crawlproj.frontier.shard import Kind, Push
from crawlproj.links import resolve
from crawlproj.records import encode_link
from crawlproj.urls import Url, registrable_domain

if TYPE_CHECKING:
    from crawlproj.rules import Rules
    from crawlproj.worker import Worker


Passed = Sequence[str]
"""The URLs by which redirects have led to one, so that a circle is recognised."""


class Discovery:
    """Takes in what pages link to, for one worker."""

    def __init__(self, worker: Worker, rules: Rules, strategy: Strategy) -> None:
        self._worker = worker
        self._rules = rules
        self._strategy = strategy
        self._domain_pages: Counter[str] = Counter()

    @property
    def worker_name(self) -> str:
        """Who fetches, as the rows of the feeds say it."""
        return self._worker.frontier.worker

    def follow(self, hrefs: Iterable[str], base: Url, depth: int, referer: str) -> int:
        """Offer a page's links to the frontier; returns how many could be used."""
        self._domain_pages[registrable_domain(base.host)] += 1
        usable, unusable = resolve(hrefs, base)
        for href, reason in unusable:
            self._filter("", href[:200], reason)
        for url in usable:
            self._offer(url, depth, referer)
        return len(usable)

    def redirect(self, url: Url, depth: int, referer: str, passed: list[str]) -> str:
        """Offer where a page redirects to, with the URLs that led there; returns the URL.
        A redirected seed is still a seed: where it leads is in scope."""
        if depth == 0:
            self._push(Kind.SEED, url, depth, referer, passed)
        else:
            self._offer(url, depth, referer, passed)
        return str(url)

    def _offer(self, url: Url, depth: int, referer: str, passed: Passed = ()) -> None:
        reason = self._rules.refusal(url, depth, self._worker.scope)
        if reason:
            self._filter(url.host, str(url), reason)
        elif not self._worker.seen(url.host, str(url)):
            self._push(Kind.LINK, url, depth, referer, passed)

    def _push(self, kind: Kind, url: Url, depth: int, referer: str, passed: Passed) -> None:
        pages = self._domain_pages[registrable_domain(url.host)]
        priority = self._strategy(Candidate(url, depth, pages))
        entry = encode_link(url.path, depth, referer, passed)
        self._worker.push(Push(kind, url.host, level(priority), entry, str(url)))

    def _filter(self, host: str, text: str, reason: str) -> None:
        """Count a link once that is not followed. Its key is apart from that of the URL itself,
        which may still come within the rules: by a shorter way, or through a new seed."""
        key = f"{reason} {text}"
        if not self._worker.seen(host, key):
            self._worker.push(Push(Kind.FILTERED, host, 0, reason.encode(), key))
