"""What each host's robots.txt allows, known to all workers once one of them has fetched it.

A robots.txt is a URL like any other: it stands in its host's queue, in front of everything, keeps
the host's pace and is accounted for. Where it redirects, it goes on in the queue of the host it
leads to. Others wait for it: there it is never dropped with that host's pages, nor held back by its
budgets (frontier/lua/_hosts.lua); where that host is given up, it is answered without asking.

No page is fetched before the robots.txt of its host is known: until then it is put off. What is
known is in known_robots.py, how it is fetched in robots_fetch.py.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from crawlproj.frontier.levels import is_robots_txt
from crawlproj.frontier.messages import Kind, Lease, LeaseName, Lost, Push
from crawlproj.frontier.outcomes import BAD_RECORD, PUT_OFF_MS, Attempt, Failed, Filtered, PutOff
from crawlproj.frontier.pacing import RetryDelay
from crawlproj.politeness import robots
from crawlproj.politeness.known_robots import KnownRobots
from crawlproj.politeness.robot_rules import PATH
from crawlproj.politeness.robots_fetch import ROBOTS_READ, UNREACHABLE_S, RobotsFetch
from crawlproj.politeness.robots_memory import bound
from crawlproj.politeness.robots_search import RobotsSearch
from crawlproj.politeness.robots_store import ASKED_S, CLAIM_S, Kept
from crawlproj.urls import Url

if TYPE_CHECKING:
    from scrapy import Request

    from crawlproj.frontier.frontier import Frontier

DENIAL = robots.pack(0, robots.Verdict.DENY_ALL)


class Permission:
    """Asks, and answers for one worker."""

    def __init__(
        self,
        frontier: Frontier,
        push: Callable[[Push], None],
        *,
        user_agent: str,
        max_attempts: int,
        retry_delay: RetryDelay,
        longest_pause_s: float,
    ) -> None:
        self._frontier = frontier
        self._push = push
        self._known = KnownRobots(frontier, user_agent=user_agent, longest_pause_s=longest_pause_s)
        self._fetch = RobotsFetch(
            self._known,
            push,
            max_attempts=max_attempts,
            retry_delay=retry_delay,
            longest_pause_s=longest_pause_s,
        )
        self._robots_txt_queued: OrderedDict[str, None] = OrderedDict()
        # Leases for a robots.txt that is known already.
        self._answered: OrderedDict[LeaseName, None] = OrderedDict()

    # For those who find and fetch pages

    def queue_robots_txt(self, host: str) -> None:
        """A page of this host is about to be queued: its robots.txt goes first."""
        if host not in self._robots_txt_queued and self._is_obeyed(host):
            self._robots_txt_queued[host] = None
            bound(self._robots_txt_queued)
            self._push(RobotsSearch.of(host).push(Kind.LINK, Url(host, PATH)))

    def outcome_for(self, host: str, url: str) -> Filtered | PutOff | None:
        """What becomes of a page that must not be fetched now: it is refused, or it waits until its
        host's robots.txt is known or the host has rested; None if it may be fetched."""
        if not self._is_obeyed(host):
            return None
        known = self._known.memory.valid(host)
        if known is None:
            return PutOff(self._known.memory.next_look_ms(host))
        if reason := known.refuses(url):
            return Filtered(reason)
        rest_ms = known.rest_ms
        return PutOff(max(rest_ms, PUT_OFF_MS)) if rest_ms else None

    def allows(self, host: str, url: str) -> bool:
        """Whether nothing that is known of the host forbids what a page of it asks for."""
        return not isinstance(self.outcome_for(host, url), Filtered)

    def delay_s(self, host: str) -> float | None:
        """The host's Crawl-delay."""
        known = self._known.memory.last(host)
        return known.rules.delay_s if known and known.rules else None

    def offer_sitemaps_to(self, take: Callable[[str, list[str]], None]) -> None:
        """Tell of each host whose robots.txt has come, and of the sitemaps that it names."""
        self._known.on_sitemaps = take

    def _is_obeyed(self, host: str) -> bool:
        return self._frontier.overrides.for_host(host).obey_robots is not False

    # What others have found

    async def learn(self, leases: Sequence[Lease]) -> None:
        """Learn what other workers have found about the hosts of these leases; a robots.txt among
        them that can be answered by it is not fetched."""
        claims_s: dict[str, int] = {}
        files = [(lease, one) for lease in leases if (one := RobotsSearch.leased(lease))]
        for lease in leases:
            if not is_robots_txt(lease.level) and self._known.memory.valid(lease.host) is None:
                claims_s[lease.host] = CLAIM_S
        unheard = list(claims_s)
        for lease, search in files:
            claims_s.setdefault(lease.host, 0)
            claims_s[search.host] = ASKED_S
        found = await self._known.store.look_up(claims_s)
        for host in unheard:
            await self._take_in(host, found[host], claims_s[host])
        for lease, search in files:
            await self._answer(lease, search, found)

    async def _take_in(self, host: str, kept: Kept, claim_s: int) -> None:
        """What pages wait for: rules, or somebody to ask for them."""
        if kept.record:
            await self._known.read_soon(host, kept.record, kept.left_s)
        elif claim_s == CLAIM_S and await self._known.store.is_ours_to_ask(host, kept):
            self._push(RobotsSearch.of(host).push(Kind.UNFILTERED, Url(host, PATH)))

    async def _answer(self, lease: Lease, search: RobotsSearch, found: dict[str, Kept]) -> None:
        """Tell those who wait for a robots.txt what it says, if that is known already."""
        at_host, left_s = found[lease.host], found[search.host].left_s
        record = found[search.host].record
        if record is None:
            record, left_s = self._known_elsewhere(lease, search, at_host)
            if record is None:
                return
            await self._known.keep(search, record, left_s)
        self._answered[lease.name] = None
        bound(self._answered)
        if self._known.on_sitemaps is not None:
            await self._known.read_soon(search.host, record, left_s, names_sitemaps=True)

    def _known_elsewhere(
        self, lease: Lease, search: RobotsSearch, at_host: Kept
    ) -> tuple[bytes | None, int]:
        """What a robots.txt that stands in a host's queue must say, by what is known of the host,
        and for how many seconds."""
        if at_host.record and search.is_own_of(lease.host) and robots.unpack(at_host.record):
            return robots.for_another_host(at_host.record, copied=True), at_host.left_s
        record, left_s = self._known.elsewhere(search.url)
        if left_s:
            return robots.for_another_host(record, copied=True), left_s
        if self._frontier.plan.gives_up(lease.host_failures):
            return DENIAL, UNREACHABLE_S
        return None, 0

    async def lost(self, dead: Iterable[Lost]) -> None:
        """Nobody asks any more for a robots.txt that was lost with its workers too often."""
        for one in dead:
            if search := RobotsSearch.leased(Lease(0, 0, one.host, one.level, one.entry)):
                await self._known.keep(search, DENIAL, UNREACHABLE_S)

    # The requests for robots.txt files

    def admit(self, request: Request, attempt: Attempt) -> bool:
        """Have the answer to a request for a robots.txt taken; False if it is not to be made, since
        what it looks for is known by now."""
        search = RobotsSearch.by(request)
        if search is None:
            attempt.decide(Failed(BAD_RECORD))
        elif attempt.lease.name in self._answered:
            del self._answered[attempt.lease.name]
            attempt.decide(Filtered(ROBOTS_READ))
        else:
            self._fetch.prepare(request, search, attempt)
            return True
        return False

    async def close(self) -> None:
        """Give up what is under way."""
        await self._known.close()
