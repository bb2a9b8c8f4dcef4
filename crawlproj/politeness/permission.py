"""What each host's robots.txt allows, known to all workers once one of them has fetched it.

A robots.txt is a URL like any other: it stands in its host's queue, in front of everything, keeps
the host's pace and is accounted for. Where it redirects, it goes on in the queue of the host it
leads to, and is answered from what is known of that host, if that is known. Others wait for it:
what one host lends to another is never dropped with its pages, nor held back by its budgets
(frontier/lua/_hosts.lua); where the lender is given up, it is answered without asking.

What was found is kept in Redis for a day (robots_store.py). A page whose host has not been heard
yet is put off; no page is fetched before.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from redis.exceptions import RedisError
from scrapy import Request

from crawlproj.errors import AddressRefused
from crawlproj.frontier import pacing
from crawlproj.frontier.levels import is_robots_txt
from crawlproj.frontier.messages import Kind, Lease, Push
from crawlproj.frontier.outcomes import BAD_RECORD, PUT_OFF_MS, Failed, Filtered, Held, Retry
from crawlproj.politeness import robots
from crawlproj.politeness.robot_rules import PATH, RobotsRules
from crawlproj.politeness.robots_memory import NOT_CONTACTED, UNREACHABLE, Known, Memory, bound
from crawlproj.politeness.robots_store import ASKED_S, CLAIM_S, KEPT_S, Kept, RobotsStore
from crawlproj.politeness.wanted import BEGINNING, Wanted, target_of
from crawlproj.urls import Url

if TYPE_CHECKING:
    from scrapy.http import Response
    from twisted.python.failure import Failure

    from crawlproj.frontier.frontier import Frontier

T = TypeVar("T")
logger = logging.getLogger(__name__)

REASON = "robots_txt"
"""How the ledger counts a robots.txt that has been dealt with."""

UNREACHABLE_S = 600
"""How long a host whose robots.txt cannot be had is left alone, before it is asked again."""

RECHECK_S = 3600
DENIAL = robots.pack(0, robots.Verdict.DENY_ALL)
NO_FILE = robots.pack(0, robots.Verdict.ALLOW_ALL)

LONG_BYTES = 8 * 1024
"""A longer file takes milliseconds to read, in which a worker has better things to do."""

MOST_LENT = 64
"""Files that are no host's robots.txt, but were reached by redirects from one."""

UNPACKED_BYTES = 16 * 2**20
"""What a compressed robots.txt may grow to; the crawl's own limit is about pages."""

CLOCK_S = 1
"""By how much the age of a key may be overrated: Redis tells it in whole seconds."""

LONGEST_LOOK_S = 15.0
"""How long the pages of a host rest at most between two looks at whether it has been heard."""


class Permission:
    """Asks, remembers and answers for one worker."""

    def __init__(
        self,
        frontier: Frontier,
        push: Callable[[Push], None],
        *,
        user_agent: str,
        max_attempts: int,
        retry_delay_s: float,
        longest_pause_s: float,
        on_sitemaps: Callable[[str, list[str]], None] | None = None,
    ) -> None:
        self._frontier = frontier
        self._push = push
        self._user_agent = user_agent
        self._max_attempts = max_attempts
        self._retry_delay_s = retry_delay_s
        self._longest_pause_s = longest_pause_s
        self.on_sitemaps = on_sitemaps
        self._store = RobotsStore(frontier)
        self._memory = Memory()
        self._introduced: OrderedDict[str, None] = OrderedDict()
        # Hosts whose pages wait: since when, and when that was last looked at.
        self._waiting: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lent: OrderedDict[str, tuple[bytes, float]] = OrderedDict()
        # Leases, by shard and token, for a robots.txt that is known already.
        self._answered: OrderedDict[tuple[int, int], None] = OrderedDict()
        self._being_read: dict[str, asyncio.Task[None]] = {}
        self._reading = asyncio.Lock()

    # For those who find and fetch pages

    def introduce(self, host: str) -> None:
        """A page of this host is about to be queued: its robots.txt goes first."""
        if host not in self._introduced and self._is_obeyed(host):
            self._introduced[host] = None
            bound(self._introduced)
            self._push(Wanted.of(host).push(Kind.LINK, Url(host, PATH)))

    def refusal(self, host: str, url: str) -> str | None:
        """Why a page must not be fetched: its reason, '' if that is not known yet, else None."""
        if not self._is_obeyed(host):
            return None
        known = self._memory.valid(host)
        if known is None:
            return ""
        if known.rules is None:
            return known.refusal
        return None if known.rules.allows(url) else "robots"

    def next_look_ms(self, host: str) -> int:
        """How long a page whose host has not been heard waits before it is looked at again: the
        longer, the longer it has waited."""
        now = time.monotonic()
        since, last = self._waiting.get(host, (now, now))
        if now - last > 2 * LONGEST_LOOK_S:
            since = now  # that was another time
        self._waiting[host] = since, now
        bound(self._waiting)
        return max(PUT_OFF_MS, round(min((now - since) / 4, LONGEST_LOOK_S) * 1000))

    def rest_ms(self, host: str) -> int:
        """How long the host must still rest before its first page."""
        known = self._memory.last(host)
        return max(0, round((known.rests_until - time.monotonic()) * 1000)) if known else 0

    def delay_s(self, host: str) -> float | None:
        """The host's Crawl-delay."""
        known = self._memory.last(host)
        return known.rules.delay_s if known and known.rules else None

    def _is_obeyed(self, host: str) -> bool:
        return self._frontier.overrides.for_host(host).obey_robots is not False

    # What others have found

    async def learn(self, leases: Sequence[Lease]) -> None:
        """Hear what other workers have found about the hosts of these leases; a robots.txt among
        them that can be answered by it is not fetched."""
        claims_s: dict[str, int] = {}
        files = [(lease, one) for lease in leases if (one := Wanted.leased(lease))]
        for lease in leases:
            if not is_robots_txt(lease.level) and self._memory.valid(lease.host) is None:
                claims_s[lease.host] = CLAIM_S
        unheard = list(claims_s)
        for lease, wanted in files:
            claims_s.setdefault(lease.host, 0)
            claims_s[wanted.host] = ASKED_S
        found = await self._store.look_up(claims_s)
        for host in unheard:
            await self._hear(host, found[host], claims_s[host])
        for lease, wanted in files:
            await self._answer(lease, wanted, found)

    async def _hear(self, host: str, kept: Kept, claim_s: int) -> None:
        """What pages wait for: rules, or somebody to ask for them."""
        if kept.record:
            await self._read_soon(host, kept.record, kept.left_s)
        elif claim_s == CLAIM_S and await self._store.is_ours_to_ask(host, kept):
            self._push(Wanted.of(host).push(Kind.UNFILTERED, Url(host, PATH)))

    async def _answer(self, lease: Lease, wanted: Wanted, found: dict[str, Kept]) -> None:
        """Tell those who wait for a robots.txt what it says, if that is known already."""
        at_host, left_s = found[lease.host], found[wanted.host].left_s
        record = found[wanted.host].record
        if record is None:
            record, left_s = self._known_elsewhere(lease, wanted, at_host)
            if record is None:
                return
            await self._tell(wanted, record, left_s)
        self._answered[lease.shard, lease.token] = None
        bound(self._answered)
        if self.on_sitemaps is not None:
            await self._read_soon(wanted.host, record, left_s, names_sitemaps=True)

    def _known_elsewhere(
        self, lease: Lease, wanted: Wanted, at_host: Kept
    ) -> tuple[bytes | None, int]:
        """What a robots.txt that stands in a host's queue must say, by what is known of the host,
        and for how many seconds."""
        if at_host.record and wanted.is_own_of(lease.host) and robots.unpack(at_host.record):
            return robots.lend(at_host.record, copied=True), at_host.left_s
        lent, until = self._lent.get(wanted.url, (b"", 0.0))
        if (left_s := int(until - time.monotonic())) > 0:
            return robots.lend(lent, copied=True), left_s
        if 0 < self._frontier.limits.give_up <= lease.host_failures:
            return DENIAL, UNREACHABLE_S
        return None, 0

    async def lost(self, dead: Iterable[tuple[str, float, bytes]]) -> None:
        """Nobody asks any more for a robots.txt that was lost with its workers too often."""
        for host, level, entry in dead:
            if wanted := Wanted.leased(Lease(0, 0, host, level, entry)):
                await self._tell(wanted, DENIAL, UNREACHABLE_S)

    # The fetching of a robots.txt

    def admit(self, request: Request, held: Held) -> bool:
        """Let a request for a robots.txt come back here, however it ends; False if it is not to be
        made, since what it is after is known by now."""
        wanted = Wanted.by(request)
        if wanted is None:
            held.decide(Failed(BAD_RECORD))
        elif (held.lease.shard, held.lease.token) in self._answered:
            del self._answered[held.lease.shard, held.lease.token]
            held.decide(Filtered(REASON))
        else:
            self._prepare(request, wanted, held)
            return True
        return False

    def _prepare(self, request: Request, wanted: Wanted, held: Held) -> None:
        request.meta.update(handle_httpstatus_all=True, dont_redirect=True, dont_retry=True)
        request.meta.update({BEGINNING: robots.MOST_BYTES, "download_maxsize": UNPACKED_BYTES})

        async def received(response: Response) -> None:
            with _fetched_again_after_an_outage(held):
                await self._received(response, wanted, held)

        async def failed(failure: Failure) -> None:
            with _fetched_again_after_an_outage(held):
                is_own = wanted == Wanted.of(held.lease.host)
                if is_own and isinstance(failure.value, AddressRefused):
                    await self._leave_alone(wanted, held, robots.Verdict.NOT_CONTACTED)
                else:
                    await self._unreachable(wanted, held)

        request.callback = received
        request.errback = failed

    async def _received(self, response: Response, wanted: Wanted, held: Held) -> None:
        verdict = robots.judge(response.status, wanted.hops)
        held.decide(Filtered(REASON))
        if verdict is robots.Verdict.DENY_ALL:
            await self._unreachable(wanted, held)
        elif verdict is robots.Verdict.RULES:
            await self._obey(response, wanted, held)
        elif 300 <= response.status < 400:
            is_followed = verdict is robots.Verdict.REDIRECT
            if not is_followed or not await self._follow(target_of(response), wanted, held):
                # Too many for this host, or to nowhere: others may have got here by fewer.
                await self._tell(wanted._replace(via=()), NO_FILE, KEPT_S)
        else:
            nothing = robots.pack(response.status, robots.Verdict.ALLOW_ALL)
            await self._tell_all(wanted, held, nothing, KEPT_S, RobotsRules())

    async def _obey(self, response: Response, wanted: Wanted, held: Held) -> None:
        read = partial(robots.digest, response.status, response.body, self._user_agent)
        rules, record = await self._off_the_loop(read, len(response.body))
        if rules.is_too_much:
            logger.warning("%s has more rules than are kept: it allows nothing", wanted.url)
        if wanted.is_own_of(held.lease.host):
            most_ms = round(self._longest_pause_s * 1000)
            delay_ms = pacing.pause_ms(0, rules.delay_s, 0, factor=0, most_ms=most_ms)
            held.pause_ms = max(held.pause_ms, delay_ms)
        await self._tell_all(wanted, held, record, KEPT_S, rules)

    async def _follow(self, target: Url | None, wanted: Wanted, held: Held) -> bool:
        """Go on to where a robots.txt has moved to, if that is anywhere."""
        if target is None:
            return False
        if target.path == PATH:
            kept = (await self._store.look_up({target.host: 0}))[target.host]
            if kept.record and robots.unpack(kept.record):
                await self._tell(wanted, robots.lend(kept.record, copied=True), kept.left_s)
                await self._read_soon(wanted.host, kept.record, kept.left_s, names_sitemaps=True)
                return True
        moved = wanted.led_to(target, held.lease.host)
        self._push(moved.push(Kind.UNFILTERED, target))
        elsewhere = target.host if target.host != wanted.host else ""
        await self._store.claim(wanted.host, ASKED_S, elsewhere)
        return True

    async def _unreachable(self, wanted: Wanted, held: Held) -> None:
        """Try again later, and after the last time leave the host alone for a while."""
        if held.attempts < self._max_attempts:
            held.decide(Retry(held.lease.entry))
            delay_s = math.ceil(self._retry_delay_s * 2 ** (held.attempts - 1))
            elsewhere = held.lease.host if held.lease.host != wanted.host else ""
            await self._store.claim(wanted.host, ASKED_S + delay_s, elsewhere)
            return
        await self._leave_alone(wanted, held, robots.Verdict.DENY_ALL)

    async def _leave_alone(self, wanted: Wanted, held: Held, verdict: robots.Verdict) -> None:
        held.decide(Filtered(REASON))
        denial = robots.pack(held.status, verdict)
        await self._tell_all(wanted, held, denial, UNREACHABLE_S, None)

    # What is made known

    async def _tell_all(
        self, wanted: Wanted, held: Held, record: bytes, seconds: int, rules: RobotsRules | None
    ) -> None:
        """What has been fetched, to all workers, for every host whose robots.txt it is."""
        at_host = held.lease.host
        for host in wanted.concerned(at_host):
            its_own = record if host == at_host else robots.lend(record)
            await self._store.keep(host, its_own, seconds)
            self._remember(host, its_own, seconds, rules)
        if not wanted.is_own_of(at_host):
            self._lent[wanted.url] = record, time.monotonic() + min(seconds, RECHECK_S)
            bound(self._lent, MOST_LENT)
        self._tell_of_sitemaps(wanted.host)

    async def _tell(self, wanted: Wanted, record: bytes, seconds: int) -> None:
        """What is known of another host, for those whose robots.txt leads there. It is read by
        whoever has pages of theirs."""
        for host in (wanted.host, *wanted.via):
            await self._store.keep(host, record, seconds)
            self._memory.forget(host)

    def _tell_of_sitemaps(self, host: str) -> None:
        known = self._memory.last(host)
        if self.on_sitemaps is not None and known and known.rules:
            self.on_sitemaps(host, known.rules.sitemaps)

    # What is remembered

    async def _read_soon(
        self, host: str, record: bytes, seconds: int, *, names_sitemaps: bool = False
    ) -> None:
        """Have at hand what others have found; long rules later, and only their pages wait."""
        reading = self._read(host, record, seconds, names_sitemaps)
        if not robots.is_longer(record, LONG_BYTES):
            await reading
        elif host in self._being_read:
            reading.close()
        else:
            task = self._being_read[host] = asyncio.create_task(reading)
            task.add_done_callback(lambda _: self._being_read.pop(host, None))

    async def _read(self, host: str, record: bytes, seconds: int, names_sitemaps: bool) -> None:
        stored = robots.unpack(record)
        if stored is None:
            await self._store.clear(host)
            return
        rules = None
        if stored.verdict not in robots.DENIALS:
            read = partial(stored.rules, self._user_agent)
            rules = await self._off_the_loop(read, len(stored.body))
        self._remember(host, record, seconds, rules)
        if names_sitemaps:
            self._tell_of_sitemaps(host)

    async def _off_the_loop(self, read: Callable[[], T], size_bytes: int) -> T:
        """Read a file; long ones in another thread, one at a time, so that many of them leave room
        for what else needs threads."""
        if size_bytes <= LONG_BYTES:
            return read()
        async with self._reading:
            return await asyncio.to_thread(read)

    def _remember(self, host: str, record: bytes, seconds: int, rules: RobotsRules | None) -> None:
        now = time.monotonic()
        rest_s = self._first_rest_s(record, KEPT_S - seconds, rules) if rules else 0.0
        refusal = NOT_CONTACTED if robots.is_not_contacted(record) else UNREACHABLE
        self._memory.put(host, Known(rules, now + min(seconds, RECHECK_S), now + rest_s, refusal))
        self._store.let_go(host)
        self._waiting.pop(host, None)

    def _first_rest_s(self, record: bytes, age_s: int, rules: RobotsRules) -> float:
        """What is left of a Crawl-delay that came from another host, where it was not kept. The age
        of a copy is not that of the request that led to it."""
        delay_s = min(rules.delay_s or 0.0, self._longest_pause_s)
        borrowed, copied = robots.provenance(record)
        if copied:
            return delay_s
        return max(0.0, delay_s - max(0, age_s - CLOCK_S)) if borrowed else 0.0

    async def close(self) -> None:
        """Leave unread what is being read."""
        for task in list(self._being_read.values()):
            task.cancel()
        await asyncio.gather(*self._being_read.values(), return_exceptions=True)


@contextmanager
def _fetched_again_after_an_outage(held: Held) -> Iterator[None]:
    """What Redis could not be told is lost: pages of the host would wait for it in vain."""
    try:
        yield
    except RedisError as error:
        logger.warning("%s/robots.txt is fetched again (%s)", held.lease.host, error)
        held.decide(Retry(held.lease.entry))
