"""The demo web at its addresses, and what a correct crawl of it finds.

The ground truth is a breadth-first walk over the model; neither HTML nor HTTP nor any part of the
crawler has a say in it. No input or output happens here.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal
from urllib.parse import urlsplit

from crawlproj.demo import robots
from crawlproj.demo.build import build
from crawlproj.demo.model import Asset, Page, Redirect, Ref
from crawlproj.demo.spec import DemoError, WebSpec

__all__ = ["DemoWeb", "Expected", "WebSpec", "host_addresses"]

HOSTS_PER_NET = 250


@dataclass(frozen=True, slots=True)
class Expected:
    """What became of each URL that the crawl came across; a URL is in exactly one set."""

    pages: set[str] = field(default_factory=set)
    redirects: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    non_html: set[str] = field(default_factory=set)
    disallowed: set[str] = field(default_factory=set)
    out_of_scope: set[str] = field(default_factory=set)
    depth_of: dict[str, int] = field(default_factory=dict)
    """Links from a seed. A redirect is no link: its target is as deep as it is."""

    @property
    def fetched(self) -> set[str]:
        """Every URL that the origin must see, robots.txt aside."""
        return self.pages | self.redirects | self.missing | self.non_html


class DemoWeb:
    """Hosts, pages, redirects and the rest, by URL."""

    def __init__(self, spec: WebSpec, bases: Sequence[str] | None = None) -> None:
        self.spec = spec
        self.hosts, self.resources = build(spec)
        self._settle(bases or [f"http://{name}" for name in host_addresses(spec.hosts)])

    def at(self, bases: Sequence[str]) -> DemoWeb:
        """The same web at other addresses: one `http://address:port` a host."""
        web = copy.copy(self)
        for cached in ("pages", "titles"):
            web.__dict__.pop(cached, None)
        web._settle(bases)
        return web

    def _settle(self, bases: Sequence[str]) -> None:
        self.bases = tuple(bases)
        self._host_at = {base: host for host, base in enumerate(bases)}

    @property
    def seeds(self) -> list[str]:
        """The root of each host."""
        return [f"{base}/" for base in self.bases]

    @cached_property
    def pages(self) -> dict[str, Page]:
        """Every HTML page of the web, disallowed ones included."""
        return {
            self.url(ref): resource
            for ref, resource in self.resources.items()
            if isinstance(resource, Page)
        }

    def url(self, ref: Ref) -> str:
        return self.bases[ref.host] + ref.path

    def ref(self, url: str) -> Ref:
        parts = urlsplit(url)
        host = self._host_at.get(f"{parts.scheme}://{parts.netloc}")
        if host is None:
            raise DemoError(f"{url} is not on this web, which begins at {self.bases[0]}/")
        return Ref(host, (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))

    def title(self, ref: Ref, page: Page) -> str:
        """What stands in the page's <title>."""
        return f"{page.title} | {self.hosts[ref.host].name}"

    @cached_property
    def titles(self) -> dict[str, str]:
        return {url: self.title(self.ref(url), page) for url, page in self.pages.items()}

    def links(self, url: str) -> list[str]:
        """Where the links of a page lead, in the order of the page."""
        page = self.pages[url]
        return [self.url(ref) for ref in page.nav + page.links]

    def robots_txt(self, host: int) -> str | None:
        if not robots.is_served_by(host, self.spec.robots):
            return None
        return robots.text(self.spec.crawl_delay_s)

    def allows(self, ref: Ref) -> bool:
        """Whether the host's robots.txt lets robots in general fetch it."""
        return robots.allows(ref.path) or not robots.is_served_by(ref.host, self.spec.robots)

    def expected(
        self,
        seeds: Iterable[str],
        scope: Literal["any", "host"] = "any",
        depth: int | None = None,
        obey_robots: bool = True,
    ) -> Expected:
        """What a crawl from `seeds` finds; scope `host` keeps to the hosts of the seeds."""
        starts = [self.ref(url) for url in seeds]
        hosts = {ref.host for ref in starts} if scope == "host" else set(range(self.spec.hosts))
        return _Walk(self, hosts, depth, obey_robots).run(starts)


class _Walk:
    def __init__(self, web: DemoWeb, hosts: set[int], depth: int | None, robots: bool) -> None:
        self._web = web
        self._hosts = hosts
        self._depth = depth
        self._obeys_robots = robots
        self._waiting: deque[tuple[Ref, int]] = deque()
        self._found = Expected()

    def run(self, starts: list[Ref]) -> Expected:
        self._waiting.extend((ref, 0) for ref in starts)
        met: set[Ref] = set()
        while self._waiting:
            ref, depth = self._waiting.popleft()
            if ref not in met:
                met.add(ref)
                url = self._web.url(ref)
                self._found.depth_of[url] = depth
                self._visit(ref, depth)(url)
        return self._found

    def _visit(self, ref: Ref, depth: int) -> Callable[[str], None]:
        """Queues what `ref` leads to, and returns where its URL is noted."""
        if ref.host not in self._hosts:
            return self._found.out_of_scope.add
        if self._obeys_robots and not self._web.allows(ref):
            return self._found.disallowed.add
        match self._web.resources.get(ref):
            case Page(nav=nav, links=links):
                if self._depth is None or depth < self._depth:
                    self._waiting.extend((link, depth + 1) for link in nav + links)
                return self._found.pages.add
            case Redirect(target=target):
                # To the front: the target is as near as the redirect, nearer than what waits.
                self._waiting.appendleft((target, depth))
                return self._found.redirects.add
            case Asset():
                return self._found.non_html.add
            case None:
                return self._found.missing.add


def host_addresses(hosts: int) -> list[str]:
    """An address of its own for each host, all of them on loopback."""
    if hosts == 1:
        return ["127.0.0.1"]
    return [
        f"127.0.{1 + number // HOSTS_PER_NET}.{1 + number % HOSTS_PER_NET}"
        for number in range(hosts)
    ]
