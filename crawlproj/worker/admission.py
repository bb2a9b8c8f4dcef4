"""Whether a URL that has been leased is fetched now: what its host, its robots.txt and its pattern
say to it at the last moment. If it is not, the notes on the lease say why.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from scrapy import Request, Spider

from crawlproj.discover.quarantine import Aside, Quarantine
from crawlproj.discover.sitemap_reading import SITEMAP, SitemapReader
from crawlproj.frontier.messages import Lease
from crawlproj.frontier.proxies import Proxies
from crawlproj.frontier.records import RecordError, decode
from crawlproj.politeness.holds import Holds
from crawlproj.politeness.permission import Permission
from crawlproj.politeness.wanted import ROBOTS_TXT
from crawlproj.urls import Url
from crawlproj.worker.outcome import Held

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
        """The request to make, or None and a note why there is none."""
        lease = held.lease
        if hold_ms := self.holds.left_ms(lease):
            held.returned, held.hold_ms = True, hold_ms
            return None
        try:
            request = decode(lease.host, lease.level, lease.entry, self.spider, self.proxies)
        except RecordError as error:
            logger.error("Set aside: %s", error)
            held.bad_record = True
            return None
        if self.permission is not None and ROBOTS_TXT in request.meta:
            return request if self.permission.admit(request, held) else None
        if request.meta["depth"] and (found := self._pattern_of(lease, request)):
            held.aside = found
            return None
        refusal = self._refusal(held, request)
        if refusal is not None:
            held.filtered, held.put_off = refusal, not refusal
            return None
        if SITEMAP in request.meta:
            self.sitemaps.prepare(request, held)
        return request

    def _refusal(self, held: Held, request: Request) -> str | None:
        """Why the host's robots.txt keeps us from it, '' if we must wait to know or to go on."""
        host = held.lease.host
        if self.permission is None:
            return None
        refusal = self.permission.refusal(host, request.url)
        if refusal == "":
            held.hold_ms = self.permission.next_look_ms(host)
        elif refusal is None and (rest_ms := self.permission.rest_ms(host)):
            held.hold_ms = rest_ms
            return ""
        return refusal

    def _pattern_of(self, lease: Lease, request: Request) -> Aside | None:
        """The pattern that it belongs to, if that is set aside."""
        path = request.url.removeprefix(lease.host)
        return self.quarantine.holds(Url(lease.host, path)) if path.startswith("/") else None
