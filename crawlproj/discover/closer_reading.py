"""How pages are read of which more is wanted than the links to follow: for the link table, for
links that are checked, or for both. A crawl that wants neither has none of this."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawlproj.discover import link_details, links
from crawlproj.discover.checking import CHECKED, CheckingDiscovery, check_outcome
from crawlproj.discover.link_records import Recorder
from crawlproj.frontier.levels import priority_of
from crawlproj.frontier.outcomes import Filtered
from crawlproj.items import utc_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scrapy.http import Response

    from crawlproj.discover.discovery import Discovery
    from crawlproj.discover.link_details import Details
    from crawlproj.frontier.outcomes import Attempt, Outcome
    from crawlproj.frontier.plan import Plan
    from crawlproj.items import PageItem
    from crawlproj.urls import Url


def make_closer_reading(
    plan: Plan,
    discovery: Discovery,
    write: Callable[[bytes], None] | None,
    *,
    skip_nofollow: bool,
) -> CloserReading:
    """For a crawl that wants it; `write` takes the rows of the link table, if there is one."""
    assert isinstance(discovery, CheckingDiscovery)
    recorder = Recorder(write, anchors=plan.anchors) if write else None
    return CloserReading(plan, discovery, recorder, skip_nofollow=skip_nofollow)


class CloserReading:
    """Reads pages for one worker, keeps their links, and has those asked for that are not
    followed."""

    def __init__(
        self,
        plan: Plan,
        discovery: CheckingDiscovery,
        recorder: Recorder | None,
        *,
        skip_nofollow: bool,
    ) -> None:
        self._plan = plan
        self._skip_nofollow = skip_nofollow
        self._discovery = discovery
        self._recorder = recorder

    def read(self, body: bytes, charset: str | None) -> Details:
        """A page, and what more is wanted of it. Its links are to be followed next."""
        plan = self._plan
        self._discovery.resolved.clear()
        return link_details.read(
            body,
            charset,
            images=plan.media and not plan.check,
            skip_nofollow=self._skip_nofollow,
            embedded=plan.media,
            ids=plan.anchors,
        )

    def note(
        self,
        url: Url,
        read: Details,
        depth: int,
        lease: int,
        *,
        priority: float,
        is_nofollow: bool,
    ) -> None:
        """A page has been read, and its links followed unless it asks for the contrary."""
        if self._recorder is not None:
            self._recorder.page(url, utc_timestamp(), read, self._normal, lease)
        if self._discovery.check:
            hrefs = [*read.kept_back, *(link[0] for link in read.embedded)]
            self._discovery.share_out(priority, len(read.page.links) + len(hrefs))
            hrefs += read.page.links if is_nofollow else ()
            base = links.base_of(read.page, url)
            encoding = links.query_encoding(read.page.encoding)
            self._discovery.ask(hrefs, base, depth + 1, str(url), encoding)

    def _normal(self, href: str, base: Url, encoding: str) -> Url:
        return self._discovery.resolved.get(href) or self._discovery.normal(href, base, encoding)

    def outcome_of_check(self, response: Response, attempt: Attempt, passed: list[str]) -> Outcome:
        """What the answer to a check makes of it, to which these redirects led."""
        assert response.request is not None
        path = response.url.removeprefix(attempt.lease.host)
        is_last = response.request.method != "HEAD"
        return check_outcome(response.status, attempt, path, passed, is_last=is_last)

    def check_redirect(self, attempt: Attempt, target: Url, passed: list[str]) -> None:
        """A check leads elsewhere: the link is as good as what is there."""
        about = attempt.about
        self._discovery.share_out(priority_of(attempt.lease.level), 1)
        self._discovery.check_redirect(target, about.depth, about.referer, passed)
        self.note_redirect(about.url, str(target), attempt.lease.token)
        attempt.decide(Filtered(CHECKED))

    def note_again(self, page: PageItem, found: Iterable[Mapping[str, str]]) -> None:
        """A page has not changed since an earlier crawl, which found these links on it."""
        if self._recorder is not None:
            self._recorder.again(page.url, page.fetched_at, found, page.lease)

    def note_redirect(self, url: str, target: str, lease: int) -> None:
        """A redirect has been met."""
        if self._recorder is not None:
            self._recorder.redirect(url, utc_timestamp(), target, lease)
