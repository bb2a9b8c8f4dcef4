"""Links that are not followed, and asked whether they are there.

What `-a check=` names goes through the frontier like any URL, marked: it is asked once in the whole
crawl, at its host's pace and by its robots.txt, with HEAD and then, where that is refused, with GET
(`SiteSpider.checked`). Nothing that it leads to is followed but its redirects, for the outcome.
One that is there is counted as filtered (checked), and has no row; a broken one is dead. What is
fetched as a page by another way is not asked as well: if that is known only when its turn comes, it
is counted as filtered (read_as_page).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crawlproj.config.choices import ALL, OFFSITE, ONSITE
from crawlproj.discover.discovery import Discovery, Passed
from crawlproj.discover.ranking import Candidate
from crawlproj.discover.rules import DEPTH
from crawlproj.frontier import seen_keys
from crawlproj.frontier.levels import level
from crawlproj.frontier.messages import Kind, Push
from crawlproj.frontier.meta_keys import BEGINNING, CHECK, PACKED, PASSED
from crawlproj.frontier.outcomes import Attempt, Failed, Filtered, Outcome, Retry
from crawlproj.frontier.records import encode_rest
from crawlproj.urls import Url, UrlError

if TYPE_CHECKING:
    from crawlproj.running import ReadPage

CHECKED = "checked"
"""How the ledger counts a check of what is there."""

CALLBACK = "checked"
"""The method of the spider that is given the answer."""

BEGINNING_BYTES = 1024
"""What is read of a body where HEAD was refused; so little often cannot be unpacked."""

_ONSITE_REASONS = frozenset({DEPTH, "media"})
"""Why a link within the scope is not followed though nobody has said that it should be left
alone, as `deny`, `allow` and the limits of traps do."""


class CheckingDiscovery(Discovery):
    """Asks for links that are not followed, and remembers what it has made of a page's links."""

    def __init__(self, *parts: Any, check: str | None, **named: Any) -> None:
        super().__init__(*parts, **named)
        self.check = check
        """Which of them, if any."""
        self.resolved: dict[str, Url] = {}
        """The links of the page in hand that were not known, in their normal form."""
        self._is_at_page = False

    def read(self, page: ReadPage) -> int:
        # Only pages have rows in the link table: what sitemaps and seeds name is not remembered.
        self.resolved.clear()
        self._is_at_page = True
        try:
            return super().read(page)
        finally:
            self._is_at_page = False

    def normal(self, url: str, base: Url | None = None, encoding: str = "utf-8") -> Url:
        found = super().normal(url, base, encoding)
        if self._is_at_page:
            self.resolved[url] = found
        return found

    def ask(self, hrefs: list[str], base: Url, depth: int, referer: str, encoding: str) -> None:
        """Links that are not to be followed in any case: what a page embeds or marks nofollow."""
        for href in hrefs:
            try:
                url = self.normal(href, base, encoding)
            except UrlError:
                continue
            if self._is_asked(url):
                self._ask(url, depth, referer, ())

    def check_redirect(self, url: Url, depth: int, referer: str, passed: list[str]) -> None:
        """Ask where a check is redirected to."""
        self._ask(url, depth, referer, passed)

    def _refuse(self, url: Url, depth: int, referer: str, passed: Passed, reason: str) -> bool:
        is_left_out = reason in _ONSITE_REASONS or reason == OFFSITE
        if is_left_out and self._is_asked(url):
            self._ask(url, depth, referer, passed)
            return False
        return super()._refuse(url, depth, referer, passed, reason)

    def _is_asked(self, url: Url) -> bool:
        is_inside = self._rules.is_in_scope(url, self._worker.scope)
        return self.check in (ALL, ONSITE if is_inside else OFFSITE)

    def _ask(self, url: Url, depth: int, referer: str, passed: Passed) -> None:
        if self._worker.count_if_waiting(seen_keys.page(url)) or self.has_page(url):
            return  # what becomes of that is known without asking
        key = seen_keys.check(url)
        if self._worker.count_if_seen(url.host, key):
            return
        self._queue_robots_txt(url.host)
        pages = self._host_pages.get(url.host, 0)
        priority = self._strategy(Candidate(url, depth, pages, self._share))
        rest = rest_of("HEAD", list(passed))
        entry = encode_rest(url.path, rest, depth, referer if self._keeps_referer else "")
        self._worker.push(Push(Kind.LINK, url.host, level(priority), entry, key))


def check_outcome(
    status: int, attempt: Attempt, path: str, passed: list[str], *, is_last: bool
) -> Outcome:
    """What an answer says of a link. Many a server refuses HEAD, or does not know it: only what
    is said to GET is believed of a link that seems broken."""
    if status < 400:
        return Filtered(CHECKED)
    if is_last:
        return Failed(f"http_{status}")
    about = attempt.about
    entry = encode_rest(path, rest_of("GET", passed), about.depth, about.referer)
    return Retry(entry, is_another=True)


def rest_of(method: str, passed: list[str]) -> dict[str, Any]:
    """What the record of a check says beyond its URL."""
    meta: dict[str, Any] = {CHECK: True, "handle_httpstatus_all": True}
    if passed:
        meta[PASSED] = passed
    if method == "GET":
        meta |= {BEGINNING: BEGINNING_BYTES, PACKED: True}
    return {"method": method, "callback": CALLBACK, "meta": meta}
