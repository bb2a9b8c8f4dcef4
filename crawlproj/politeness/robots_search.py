"""The search for a robots.txt: whose file, where it is looked for, and for whom the answer holds.

A redirect leads on to another URL and often to another host, in whose queue the request then
stands; its meta carries on whom it is for. What is in Redis is hostile input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from crawlproj.frontier import seen_keys
from crawlproj.frontier.levels import FIRST, MOVED, is_robots_txt
from crawlproj.frontier.messages import Kind, Lease, Push
from crawlproj.frontier.meta_keys import ROBOTS_HOPS, ROBOTS_TXT, ROBOTS_VIA
from crawlproj.frontier.records import encode_rest, meta_of, summarise
from crawlproj.politeness.robot_rules import PATH
from crawlproj.urls import Url, UrlError, location, normalise

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response


class RobotsSearch(NamedTuple):
    """A robots.txt that is looked for."""

    host: str
    """Whose it is."""
    url: str
    """Where it is looked for."""
    via: tuple[str, ...] = ()
    """Other hosts whose robots.txt has led there as well."""
    hops: int = 0
    """Redirects that were followed."""

    @classmethod
    def of(cls, host: str) -> RobotsSearch:
        """A host's own, where every search for it begins."""
        return cls(host, host + PATH)

    @classmethod
    def by(cls, request: Request) -> RobotsSearch | None:
        """What a request looks for; None if that is no robots.txt."""
        return cls._read(request.meta, request.url)

    @classmethod
    def leased(cls, lease: Lease) -> RobotsSearch | None:
        """What a lease looks for; None if that is no robots.txt, or cannot be read."""
        if not is_robots_txt(lease.level):
            return None
        return cls._read(meta_of(lease.host, lease.entry), summarise(lease.host, lease.entry).url)

    @classmethod
    def _read(cls, meta: dict[str, Any], url: str) -> RobotsSearch | None:
        host, via, hops = meta.get(ROBOTS_TXT), meta.get(ROBOTS_VIA, []), meta.get(ROBOTS_HOPS, 0)
        if isinstance(host, str) and isinstance(via, list) and type(hops) is int:
            return cls(host, url, tuple(one for one in via if isinstance(one, str)), hops)
        return None

    def is_own_of(self, host: str) -> bool:
        """Whether this host's own file is looked for, for whomever."""
        return self.url == host + PATH

    def concerned(self, at_host: str) -> list[str]:
        """The hosts for which an answer of this one holds."""
        own = [at_host] if self.is_own_of(at_host) else []
        return list(dict.fromkeys([self.host, *self.via, *own]))

    def led_to(self, target: Url, at_host: str) -> RobotsSearch:
        """The same, after a redirect of this host."""
        via = [one for one in self.concerned(at_host) if one != self.host]
        return RobotsSearch(self.host, str(target), tuple(via), self.hops + 1)

    def push(self, kind: Kind, at: Url) -> Push:
        """The request for it, in the queue of the host where it is looked for."""
        meta: dict[str, Any] = {ROBOTS_TXT: self.host}
        if self.hops:
            meta |= {ROBOTS_HOPS: self.hops, ROBOTS_VIA: list(self.via)}
        entry = encode_rest(at.path, {"meta": meta})
        level = FIRST if at.host == self.host else MOVED
        return Push(kind, at.host, level, entry, seen_keys.robots_txt(self.host))


def target_of(response: Response) -> Url | None:
    """Where a redirect leads; None if that is nowhere."""
    to = location(response.headers.get("Location"))
    if not to:
        return None
    try:
        return normalise(to, normalise(response.url))
    except UrlError:
        return None
