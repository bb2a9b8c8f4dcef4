"""Whether a URL that has been leased is fetched now: what its host, its robots.txt and its pattern
say to it at the last moment. If it is not, what becomes of its lease is decided here.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from scrapy import Request, Spider

from crawlproj.discover.quarantine import Quarantine
from crawlproj.discover.sitemap_reading import SITEMAP, SitemapReader
from crawlproj.frontier.messages import Lease
from crawlproj.frontier.outcomes import (
    BAD_RECORD,
    PUT_OFF_MS,
    Failed,
    Filtered,
    Held,
    Outcome,
    PutOff,
    Returned,
    SetAside,
)
from crawlproj.frontier.proxies import Proxies
from crawlproj.frontier.records import RecordError, decode
from crawlproj.politeness.holds import Holds
from crawlproj.politeness.permission import Permission
from crawlproj.politeness.wanted import ROBOTS_TXT
from crawlproj.urls import Url

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Admission:
    """Everyone who has a say in it."""

    spider: Spider
    holds: Holds
    permission: Permission | None
    quarantine: Quarantine
    sitemaps: SitemapReader
    proxies: Proxies

    def request_of(self, held: Held) -> Request | None:
        """The request to make; None if there is none to make: its outcome is decided then."""
        lease = held.lease
        if hold_ms := self.holds.left_ms(lease):
            held.decide(Returned(hold_ms))
            return None
        try:
            request = decode(lease.host, lease.level, lease.entry, self.spider, self.proxies)
        except RecordError as error:
            logger.error("Set aside: %s", error)
            held.decide(Failed(BAD_RECORD))
            return None
        if self.permission is not None and ROBOTS_TXT in request.meta:
            return request if self.permission.admit(request, held) else None
        if request.meta["depth"] and (found := self._pattern_of(lease, request)):
            held.decide(found)
            return None
        if refusal := self._refusal(lease.host, request):
            held.decide(refusal)
            return None
        if SITEMAP in request.meta:
            self.sitemaps.prepare(request, held)
        return request

    def _refusal(self, host: str, request: Request) -> Outcome | None:
        """What the host's robots.txt makes of it, if it keeps us from it or is not known yet."""
        if self.permission is None:
            return None
        reason = self.permission.refusal(host, request.url)
        if reason:
            return Filtered(reason)
        is_known = reason is None
        wait = self.permission.rest_ms if is_known else self.permission.next_look_ms
        rest_ms = wait(host)
        return PutOff(max(rest_ms, PUT_OFF_MS)) if rest_ms or not is_known else None

    def _pattern_of(self, lease: Lease, request: Request) -> SetAside | None:
        """The pattern that it belongs to, if that is set aside."""
        path = request.url.removeprefix(lease.host)
        return self.quarantine.holds(Url(lease.host, path)) if path.startswith("/") else None
