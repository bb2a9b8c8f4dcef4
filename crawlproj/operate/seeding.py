"""Adds seeds to a crawl's list, whoever has found them: those that are new to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from scrapy import Request
from scrapy.settings import Settings

from crawlproj.config import Config
from crawlproj.discover.seeds import SeedList, parse_seed
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.records import RequestKey
from crawlproj.operate.command import print_error
from crawlproj.urls import Url, bare_name, normalise
from crawlproj.worker import join
from crawlproj.worker.seen_filter import SeenFilter

AT_ONCE = 1000
"""Seeds in one call to Redis."""


class SeedAdder:
    """Adds seeds to a crawl's list that are neither there nor in the crawl that runs."""

    def __init__(
        self, frontier: Frontier, seeds: SeedList, requests: SeenFilter, identity: join.Identity
    ) -> None:
        self._frontier = frontier
        self._seeds = seeds
        self._requests = requests
        self._identity = identity
        self._known: set[RequestKey] = set()
        self._has_begun = False
        self.given = self.new = self.refused = 0
        self.on_refused: Callable[[str, str], None] = _print_refused
        """Called with a seed that cannot be used, and why."""

    @classmethod
    async def begin(cls, frontier: Frontier, seeds: SeedList, settings: Settings) -> SeedAdder:
        """Learn what waits, and which requests are the same to the crawl."""
        meta = await _running(frontier)
        own = await join.settings_of(frontier.client, settings, frontier.crawl)
        plan = frontier.plan if meta else Plan.of(Config.from_settings(own))
        identity = join.Identity.of(plan)
        self = cls(frontier, seeds, SeenFilter.of_project(own, identity), identity)
        texts = [one.decode(errors="replace") for one in await seeds.peek()]
        self._known.update(_usable(texts, self._requests, identity)[0])
        self._has_begun = bool(meta)
        return self

    async def add(self, given: list[str], is_named: Callable[[Url], bool]) -> None:
        """Add those that are new; says of each that cannot be used why. Hosts that the user has not
        named are marked, so that a seed there opens no address in the user's own network."""
        usable, refused = _usable(given, self._requests, self._identity)
        for seed, reason in refused:
            self.on_refused(seed, reason)
        hosts = {request.host for request in usable}
        named = {bare_name(host) for host in hosts if is_named(Url(host, "/"))}
        await self._seeds.mark_found({bare_name(host) for host in hosts} - named, named)
        fresh = {one: seed for one, seed in usable.items() if one not in self._known}
        self._known.update(fresh)
        pairs = list(fresh.items())
        for start in range(0, len(pairs), AT_ONCE):
            await self._add(pairs[start : start + AT_ONCE])
        self.given += len(given)
        self.refused += len(refused)

    async def _add(self, some: Sequence[tuple[RequestKey, str]]) -> None:
        taken = [False] * len(some)
        if self._has_begun:
            taken = await self._frontier.taken([request for request, _ in some])
        new = [seed for (_, seed), known in zip(some, taken, strict=True) if not known]
        if new:
            await self._seeds.add(new)
        self.new += len(new)


def _print_refused(seed: str, reason: str) -> None:
    print_error(f"refused: {seed}: {reason}")


def _usable(
    seeds: Iterable[str], requests: SeenFilter, identity: join.Identity
) -> tuple[dict[RequestKey, str], list[tuple[str, str]]]:
    """What can be used, by the request that it stands for, and what cannot, with the reason."""
    usable: dict[RequestKey, str] = {}
    refused = []
    for seed in seeds:
        try:
            usable.setdefault(requests.key_of(_request(seed, identity)), seed)
        except (ValueError, TypeError) as error:
            refused.append((seed[:200], str(error)))
    return usable, refused


def _request(seed: str, identity: join.Identity) -> Request:
    """As a spider makes it of a seed: `site` of its URL in the crawl's one form."""
    if not seed.startswith("{"):
        normal = str(normalise(seed, drop=identity.drop))
        return Request(normal if identity.by_url else seed)
    request = parse_seed(seed.encode())
    normal = str(normalise(request.url, drop=identity.drop))
    return request.replace(url=normal) if identity.by_url else request


async def _running(frontier: Frontier) -> dict[str, str]:
    """The META of the crawl that seeds given now would belong to, empty if it has not begun."""
    meta = await frontier.attach()
    return meta if meta and meta["state"] != "finished" else {}
