"""Decides whether a leased URL is fetched now: holds of its host, its robots.txt and its pattern
are asked at the last moment. For one that is not fetched it decides what becomes of the lease.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from scrapy import Request, Spider
from scrapy.settings import BaseSettings

from crawlproj.discover.stage import LinkDiscovery
from crawlproj.errors import HostUnreachable
from crawlproj.frontier.failures import meaning_of
from crawlproj.frontier.messages import Lease
from crawlproj.frontier.meta_keys import CHECK, ROBOTS_TXT, SITEMAP, VISIT
from crawlproj.frontier.outcomes import (
    BAD_RECORD,
    READ_AS_PAGE,
    Attempt,
    Failed,
    Filtered,
    Outcome,
    Returned,
    SetAside,
)
from crawlproj.frontier.proxies import Proxies
from crawlproj.frontier.records import RecordError, decode
from crawlproj.politeness.robots_memory import UNREACHABLE
from crawlproj.politeness.stage import Politeness
from crawlproj.running import EarlierCrawl, Refresh
from crawlproj.urls import Url
from crawlproj.worker.exchange import Worker
from crawlproj.worker.tracking import Tracking

logger = logging.getLogger(__name__)

_LIMITED = ("download_maxsize", "download_timeout")


def limits_of(settings: BaseSettings) -> dict[str, float]:
    """Key of `request.meta` → the worker's own limit; those that there are none of are left out."""
    limits = {name: settings.getfloat(name.upper()) for name in _LIMITED}
    return {name: most for name, most in limits.items() if most > 0}


@dataclass(frozen=True, slots=True)
class Admission:
    """Everyone who has a say in it."""

    spider: Spider
    worker: Worker
    tracking: Tracking
    politeness: Politeness
    links: LinkDiscovery
    proxies: Proxies
    limits: Mapping[str, float]
    """Of downloads, that no stored request raises."""
    refresh: Refresh | None = None
    """Where pages are revisited."""
    earlier: EarlierCrawl | None = None
    """Where pages are asked for only if they have changed."""

    def next_request(self) -> Request | None:
        """A request to make now, of what has been leased ahead."""
        groups = self.politeness.groups
        if groups is not None and groups.is_full:
            return None
        while lease := self.worker.take():
            attempt = Attempt(lease, self.worker.links_found)
            if groups is not None and groups.seek(attempt):
                continue
            request = self.request_of(attempt)
            if request is not None:
                self.tracking.begin(request, attempt)
                return request
            self.worker.end(attempt)
        return None

    def request_of(self, attempt: Attempt) -> Request | None:
        """The request to make; None if there is none to make: its outcome is decided then."""
        lease = attempt.lease
        if hold_ms := self.politeness.holds.left_ms(lease):
            attempt.decide(Returned(hold_ms))
            return None
        try:
            request = decode(
                lease.host,
                lease.level,
                lease.entry,
                self.spider,
                self.proxies,
                limits=self.limits,
            )
        except RecordError as error:
            logger.error("Set aside: %s", error)
            attempt.decide(Failed(BAD_RECORD))
            return None
        permission = self.politeness.permission
        if permission is not None and ROBOTS_TXT in request.meta:
            return request if permission.admit(request, attempt) else None
        if found := self._known_outcome(lease, request):
            attempt.decide(found)
            return None
        if refusal := self.politeness.outcome_for(lease.host, request.url):
            attempt.decide(_of_check(refusal, attempt) if CHECK in request.meta else refusal)
            return None
        if VISIT in request.meta and self.refresh is not None:
            self.refresh.prepare(request)
        if SITEMAP in request.meta:
            self.links.sitemaps.prepare(request, attempt)
        elif self.earlier is not None:
            self.earlier.prepare(request)
        return request

    def _known_outcome(self, lease: Lease, request: Request) -> SetAside | Filtered | None:
        """What becomes of it if it would tell nothing new: a link to be asked for that has been
        taken in as a page since it was found, or a URL whose pattern is set aside."""
        path = request.url.removeprefix(lease.host)
        if not path.startswith("/"):
            return None
        url = Url(lease.host, path)
        if CHECK in request.meta and self.links.discovery.has_page(url):
            return Filtered(READ_AS_PAGE)
        may_repeat = request.meta["depth"] and VISIT not in request.meta
        return self.links.quarantine.outcome_for(url) if may_repeat else None


def _of_check(refusal: Outcome, attempt: Attempt) -> Outcome:
    """A link whose host cannot be reached, not even for its robots.txt, is broken as far as anyone
    can tell, though it may mend."""
    if refusal != Filtered(UNREACHABLE):
        return refusal
    attempt.error = HostUnreachable()
    return Failed(meaning_of(attempt.error).reason)
