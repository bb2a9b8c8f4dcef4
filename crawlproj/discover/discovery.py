"""From a page's links to the frontier, in bulk: no Request is made of a link before it is its turn.

Links are resolved, judged by the crawl's rules, checked against this worker's copy of the seen
filter, ranked, and collected for the next push. What is not followed is counted with its reason.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from crawlproj.discover.known_links import is_the_same_everywhere, is_the_same_in_folder
from crawlproj.discover.quarantine import SET_ASIDE_REASON, Quarantine
from crawlproj.discover.ranking import Candidate, Opic, Strategy
from crawlproj.discover.rules import DEPTH
from crawlproj.discover.sitemap_reading import MOST_STEPS
from crawlproj.frontier import seen_keys
from crawlproj.frontier.levels import HIGHEST, level
from crawlproj.frontier.messages import Kind, Push
from crawlproj.frontier.meta_keys import SITEMAP
from crawlproj.frontier.outcomes import SetAside
from crawlproj.frontier.pattern_store import set_aside_link
from crawlproj.frontier.records import encode_link, encode_rest
from crawlproj.urls import DROPPED_PARAMS, Url, UrlError, normalise

if TYPE_CHECKING:
    from crawlproj.discover.known_links import KnownLinks
    from crawlproj.discover.rules import Rules
    from crawlproj.frontier.frontier import Frontier
    from crawlproj.running import ReadPage


Passed = Sequence[str]
"""The URLs by which redirects have led to one, so that a circle is recognised."""


REMEMBERED_HOSTS = 50_000


class Collector(Protocol):
    """The worker that links are for (worker/exchange.py): it takes in URLs for the frontier, and
    knows many that it has already."""

    frontier: Frontier
    known_links: KnownLinks

    @property
    def scope(self) -> set[str]:
        """Hosts or domains that seeds brought into scope."""

    def count_if_seen(self, host: str, key: str) -> bool:
        """True if the key is known to have been taken in, which counts it as a duplicate."""

    def count_if_waiting(self, key: str) -> bool:
        """True if a link of this key is collected already, which counts it as a duplicate."""

    def count_seen(self, links: int) -> None:
        """So many links were recognised without asking."""

    def push(self, item: Push) -> None:
        """Collect a URL for the next push."""


class Discovery:
    """Takes in what pages link to, for one worker."""

    def __init__(
        self,
        worker: Collector,
        rules: Rules,
        strategy: Strategy,
        queue_robots_txt: Callable[[str], None],
        *,
        quarantine: Quarantine,
        drop: re.Pattern[str] = DROPPED_PARAMS,
        keeps_referer: bool = True,
    ) -> None:
        self._worker = worker
        self._rules = rules
        self._strategy = strategy
        self._opic = strategy if isinstance(strategy, Opic) else None
        self._share = 1.0
        self._queue_robots_txt = queue_robots_txt
        self._quarantine = quarantine
        self._drop = drop
        self._keeps_referer = keeps_referer
        self._offered = 0
        self._host_pages: OrderedDict[str, int] = OrderedDict()
        self._known_links = worker.known_links
        self._names_in_scope = 0

    @property
    def wants_media(self) -> bool:
        """Whether links to images, sound and film are followed."""
        return self._rules.media

    def normal(self, url: str, base: Url | None = None, encoding: str = "utf-8") -> Url:
        """A URL in the one form that it has in this crawl; raises UrlError. `encoding` is what its
        query is escaped in."""
        return normalise(url, base, encoding=encoding, drop=self._drop)

    def seed_priority(self, url: Url) -> int:
        """What the strategy says of a seed, to which no link leads."""
        pages = self._host_pages.get(url.host, 0)
        return level(self._strategy(Candidate(url, 0, pages)))

    def has_page(self, url: Url) -> bool:
        """Whether the page is known to have been taken in. No link is counted as repeated for
        it."""
        return self._worker.frontier.seen(url.host, seen_keys.page(url))

    def use_rules(self, rules: Rules) -> None:
        """Go by other rules from now on."""
        self._rules = rules
        self._known_links.clear()

    def count_page(self, host: str, pages: int) -> None:
        """So many pages of a host have been fetched by all workers together."""
        self._host_pages[host] = pages
        if len(self._host_pages) > REMEMBERED_HOSTS:
            self._host_pages.popitem(last=False)

    def share_out(self, priority: float, links: int) -> None:
        """So many links come from a page of that priority: what is offered next."""
        if self._opic is not None:
            self._share = self._opic.share(priority, links)

    def read(self, page: ReadPage) -> int:
        """Take in a page: its links, and what it says of its URL's pattern; returns how many links
        could be used."""
        before = self._offered
        self.share_out(page.priority, len(page.hrefs))
        usable = self.follow(page.hrefs, page.base, page.depth + 1, str(page.url), page.encoding)
        if not page.is_revisit:  # which would look like a page of its pattern that repeats another
            self._quarantine.weigh(page.url, page.body, self._offered > before)
        return usable

    def follow(
        self,
        hrefs: Sequence[str],
        base: Url,
        depth: int,
        referer: str,
        encoding: str = "utf-8",
    ) -> int:
        """Offer links to the frontier; returns how many could be used. `encoding` is what their
        queries are escaped in."""
        self._heed_scope()
        folder = base.host + base.folder  # ends in a slash, as no host does
        unknown = self._known_links.unknown(base.host, hrefs)
        if unknown:
            unknown = self._known_links.unknown(folder, unknown)
        usable = repeated = len(hrefs) - len(unknown)
        for href in unknown:
            try:
                url = self.normal(href, base, encoding)
            except UrlError as error:
                self._filter("", error.reason, seen_keys.unusable(error.reason, href))
                continue
            usable += 1
            if url in self._known_links:
                repeated += 1
            elif not self._offer(url, depth, referer):
                continue
            self._remember(base.host, folder, href, url)
        self._worker.count_seen(repeated)
        return usable

    def _heed_scope(self) -> None:
        """Links that are known because they lead out of scope are not, once there is more of it."""
        if self._rules.goes_anywhere:
            return  # no link leads out of scope, and every seed would have all of them judged again
        if len(self._worker.scope) != self._names_in_scope:
            self._names_in_scope = len(self._worker.scope)
            self._known_links.clear()

    def _remember(self, host: str, folder: str, href: str, url: Url) -> None:
        """Remember a link by its text on this host's pages, or on those of this folder, and by its
        normal form, for other spellings."""
        known = self._known_links
        if is_the_same_everywhere(href):
            known.add(host, href)
        elif is_the_same_in_folder(href):
            known.add(folder, href)
        if is_the_same_everywhere(url.path):
            known.add(*url)

    def follow_listed(self, urls: Sequence[str], base: Url, depth: int) -> None:
        """Offer URLs that a sitemap lists: they share what a seed has."""
        self.share_out(0, len(urls))
        self.follow(urls, base, depth, str(base))

    def sitemap(self, href: str, base: Url, steps: int) -> None:
        """Offer a sitemap to which so many others have led; only its host is judged."""
        try:
            url = normalise(href, base, drop=None)
        except UrlError as error:
            self._filter("", error.reason, seen_keys.unusable(error.reason, href))
            return
        key = seen_keys.sitemap(url)
        if steps > MOST_STEPS:
            self._leave_out(url, "trap-sitemap")
        elif not self._rules.is_in_scope(url, self._worker.scope):
            self._leave_out(url, "offsite")
        elif not self._worker.count_if_seen(url.host, key):
            self._queue_robots_txt(url.host)
            entry = encode_rest(url.path, {"meta": {SITEMAP: steps}}, 0, str(base))
            self._worker.push(Push(Kind.LINK, url.host, HIGHEST, entry, key))

    def redirect(
        self, url: Url, depth: int, referer: str, passed: list[str], priority: float = 0
    ) -> str:
        """Offer where a page of that priority redirects to, with the URLs that led there; returns
        the URL. A redirected seed is still a seed: where it leads is in scope."""
        self.share_out(priority, 1)
        if depth == 0:
            self._push(Kind.SEED, url, depth, referer, passed)
        else:
            self._offer(url, depth, referer, passed)
        return str(url)

    def _offer(self, url: Url, depth: int, referer: str, passed: Passed = ()) -> bool:
        """Collect a link unless it is against the rules or known; True if the same holds for it
        wherever it is found."""
        key = seen_keys.page(url)
        if self._worker.count_if_waiting(key):
            return False  # until the frontier has it, it is not known
        if reason := self._rules.refusal(url, depth, self._worker.scope):
            return self._refuse(url, depth, referer, passed, reason) and reason != DEPTH
        if self._worker.count_if_seen(url.host, key):
            return True
        if found := self._quarantine.outcome_for(url):
            self._set_aside(self._link(Kind.LINK, url, depth, referer, passed), found)
        else:
            self._push(Kind.LINK, url, depth, referer, passed)
            self._quarantine.count_query(url)
            self._offered += 1
        return False

    def _refuse(self, url: Url, depth: int, referer: str, passed: Passed, reason: str) -> bool:
        """Deal with a link that is against the rules; True if that is known."""
        return self._leave_out(url, reason)

    def _push(self, kind: Kind, url: Url, depth: int, referer: str, passed: Passed) -> None:
        self._queue_robots_txt(url.host)
        self._worker.push(self._link(kind, url, depth, referer, passed))

    def _link(self, kind: Kind, url: Url, depth: int, referer: str, passed: Passed) -> Push:
        pages = self._host_pages.get(url.host, 0)
        priority = self._strategy(Candidate(url, depth, pages, self._share))
        entry = encode_link(url.path, depth, referer if self._keeps_referer else "", passed)
        rank = self._worker.frontier.plan.level_of(priority, is_seed=kind == Kind.SEED)
        return Push(kind, url.host, rank, entry, seen_keys.page(url))

    def _set_aside(self, link: Push, found: SetAside) -> None:
        key = seen_keys.left_out(SET_ASIDE_REASON, link.key)
        if not self._worker.count_if_seen(link.host, key):
            self._worker.push(set_aside_link(link, found.pattern, found.why, key))

    def _leave_out(self, url: Url, reason: str) -> bool:
        """Count a link that is not followed, and may still come within the rules: by a shorter way,
        or through a new seed. True if it was counted before."""
        return self._filter(url.host, reason, seen_keys.left_out(reason, url))

    def _filter(self, host: str, reason: str, key: str) -> bool:
        """Count once what has this key; True if it was counted before."""
        if (reason, key) in self._known_links:
            self._worker.count_seen(1)
        elif self._worker.count_if_seen(host, key):
            self._known_links.add(reason, key)  # the filter takes ten times as long to answer
        else:
            self._worker.push(Push(Kind.FILTERED, host, 0, reason.encode(), key))
            return False
        return True
