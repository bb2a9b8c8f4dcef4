"""What each host's robots.txt allows, known to all workers once one of them has fetched it.

A robots.txt is a URL like any other: it stands in its host's queue, in front of everything, keeps
the host's pace and is accounted for. What was found is kept in Redis for a day. A page whose host
has not been heard yet is put off; no page is fetched before.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.exceptions import OutOfMemoryError, RedisError
from scrapy import Request

from crawlproj.fetch.handler import BEGINNING
from crawlproj.frontier import keys
from crawlproj.frontier.levels import FIRST, MOVED
from crawlproj.frontier.messages import Kind, Lease, Push
from crawlproj.frontier.records import encode_rest
from crawlproj.politeness import robots
from crawlproj.urls import UrlError, location, normalise
from crawlproj.worker.outcome import Held

if TYPE_CHECKING:
    from scrapy.http import Response
    from twisted.python.failure import Failure

    from crawlproj.frontier.frontier import Frontier

logger = logging.getLogger(__name__)

ROBOTS_TXT = "robots_txt"
"""Key of `request.meta` that names the host whose robots.txt a request is after."""

REASON = "robots_txt"
"""How the ledger counts a robots.txt that has been dealt with."""

KEPT_S = 24 * 3600
UNREACHABLE_S = 600
"""How long a host whose robots.txt cannot be had is left alone, before it is asked again."""

RECHECK_S = 3600
REMEMBERED = 20_000
REMEMBERED_BYTES = 64 * 1024 * 1024
"""Of rules that are remembered: those of one file may take 8 MB."""

LONG_BYTES = 50 * 1024
"""A longer file takes tens of milliseconds to read, in which a worker has better things to do."""

MOST_FRESH = 16
"""Files between their arrival and their callback, which follows at once unless a middleware drops
them."""

UNPACKED_BYTES = 16 * 2**20
"""What a compressed robots.txt may grow to; the crawl's own limit is about pages."""

ASKED = b""
"""Kept where a host's rules will be, while somebody is on the way to fetch them."""

CLOCK_S = 1
"""By how much the age of a key may be overrated: Redis tells it in whole seconds."""

ASKED_S = 60
"""How long others trust in that, before one of them asks again."""

CLAIM_S = 10
"""How long they leave it to a worker that has found nothing, and does not know whether the host's
robots.txt is in the hands of another, which would say so any moment."""

GRACE_S = 2.0
"""How long that worker waits for it before it asks."""


class Known(NamedTuple):
    """What a host allows; no rules mean that it could not be reached and allows nothing."""

    rules: robots.RobotsRules | None
    until: float
    size: int
    rests_until: float = 0.0
    """Before that the host gets no page, since nothing has paused it for its Crawl-delay."""


class Permission:
    """Asks, remembers and answers for one worker."""

    def __init__(
        self,
        frontier: Frontier,
        push: Callable[[Push], None],
        *,
        user_agent: str,
        max_attempts: int,
        longest_pause_s: float,
        on_sitemaps: Callable[[str, list[str]], None] | None = None,
    ) -> None:
        self._frontier = frontier
        self._push = push
        self._user_agent = user_agent
        self._max_attempts = max_attempts
        self._longest_pause_s = longest_pause_s
        self._on_sitemaps = on_sitemaps
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._introduced: OrderedDict[str, None] = OrderedDict()
        # Files that have just come, and are read already.
        self._fresh: OrderedDict[str, tuple[bytes, robots.RobotsRules]] = OrderedDict()
        # Hosts whose robots.txt is this worker's to ask for, and from when on.
        self._claimed: OrderedDict[str, float] = OrderedDict()
        self._known_bytes = 0

    # For those who find and fetch pages

    def introduce(self, host: str) -> None:
        """A page of this host is about to be queued: its robots.txt goes first."""
        if host not in self._introduced and self._is_obeyed(host):
            self._introduced[host] = None
            _bound(self._introduced)
            self._ask(host, Kind.LINK)

    async def learn(self, leases: Iterable[Lease]) -> None:
        """Hear what other workers have found about the hosts of these leases."""
        claims_s: dict[str, int] = {}
        for lease in leases:
            if self._knowledge(lease.host) is None:
                claims_s[lease.host] = max(claims_s.get(lease.host, 0), _claim_s(lease))
        if not claims_s:
            return
        replies = await self._look_up(claims_s)
        if any(isinstance(reply, OutOfMemoryError) for reply in replies):
            replies = await self._look_up(dict.fromkeys(claims_s, 0))
        looked_up = zip(claims_s.items(), replies[::2], replies[1::2], strict=True)
        for (host, claim_s), packed, ttl_s in looked_up:
            if isinstance(packed, Exception):
                await self._clear(host, packed)
            elif packed:
                await self._remember(host, packed, max(1, ttl_s))
            elif claim_s == CLAIM_S and self._is_to_ask(host, packed, ttl_s):
                await self._frontier.client.expire(self._key(host), ASKED_S, gt=True)
                self._ask(host, Kind.UNFILTERED)

    async def _look_up(self, claims_s: dict[str, int]) -> list[Any]:
        """What is kept of each host, and for how long; where there is nothing, a claim for so
        many seconds is, unless there is no room for it: then everyone who needs it asks."""
        pipeline = self._frontier.client.pipeline(transaction=False)
        for host, claim_s in claims_s.items():
            if claim_s:
                pipeline.set(self._key(host), ASKED, nx=True, get=True, ex=claim_s)
            else:
                pipeline.get(self._key(host))
            pipeline.ttl(self._key(host))
        for host, claim_s in claims_s.items():
            if claim_s == ASKED_S:
                pipeline.expire(self._key(host), ASKED_S, gt=True)
        replies: list[Any] = await pipeline.execute(raise_on_error=False)
        return replies[: 2 * len(claims_s)]

    def _is_to_ask(self, host: str, packed: bytes | None, ttl_s: int) -> bool:
        """Whether a robots.txt that pages wait for is this worker's to ask for, now. True once."""
        now = time.monotonic()
        if packed is None:
            self._claimed.setdefault(host, now + GRACE_S)
            _bound(self._claimed)
        elif ttl_s > CLAIM_S:
            self._claimed.pop(host, None)
        if self._claimed.get(host, math.inf) > now:
            return False
        self._claimed[host] = now + ASKED_S
        return True

    def refusal(self, host: str, url: str) -> str | None:
        """Why a page must not be fetched: its reason, '' if that is not known yet, else None."""
        if not self._is_obeyed(host):
            return None
        known = self._knowledge(host)
        if known is None:
            return ""
        if known.rules is None:
            return "robots_unreachable"
        return None if known.rules.allows(url) else "robots"

    def rest_ms(self, host: str) -> int:
        """How long the host must still rest before its first page."""
        known = self._known.get(host)
        return max(0, round((known.rests_until - time.monotonic()) * 1000)) if known else 0

    def delay_s(self, host: str) -> float | None:
        """The host's Crawl-delay."""
        known = self._known.get(host)
        return known.rules.delay_s if known and known.rules else None

    def delay_in_s(self, host: str, response: Response) -> float | None:
        """The Crawl-delay in a host's robots.txt that has just come."""
        if robots.judge(response.status) is not robots.Verdict.RULES:
            return None
        rules = robots.parse(response.body, self._user_agent)
        self._fresh[host] = response.body, rules
        _bound(self._fresh, MOST_FRESH)
        return rules.delay_s

    def _knowledge(self, host: str) -> Known | None:
        known = self._known.get(host)
        return known if known and known.until >= time.monotonic() else None

    def _is_obeyed(self, host: str) -> bool:
        return self._frontier.overrides.for_host(host).obey_robots is not False

    # The fetching of a robots.txt

    def prepare(self, request: Request, held: Held) -> None:
        """Let a request for a robots.txt come back here, however it ends."""
        request.meta.update(handle_httpstatus_all=True, dont_redirect=True, dont_retry=True)
        request.meta.update({BEGINNING: robots.MOST_BYTES, "download_maxsize": UNPACKED_BYTES})

        async def received(response: Response) -> None:
            with _fetched_again_after_an_outage(held):
                await self._received(response, held)

        async def failed(failure: Failure) -> None:
            with _fetched_again_after_an_outage(held):
                await self._unreachable(request, held)

        request.callback = received
        request.errback = failed

    async def _received(self, response: Response, held: Held) -> None:
        request = response.request
        assert request is not None
        host = request.meta[ROBOTS_TXT]
        held.filtered = REASON
        verdict = robots.judge(response.status, request.meta.get("hops", 0))
        if verdict is robots.Verdict.DENY_ALL:
            await self._unreachable(request, held)
        elif verdict is not robots.Verdict.REDIRECT or not self._followed(response, request):
            known = verdict if verdict is robots.Verdict.RULES else robots.Verdict.ALLOW_ALL
            borrowed = held.lease.host != host
            packed = robots.pack(response.status, known, response.body, borrowed=borrowed)
            body, rules = self._fresh.pop(host, (b"", None))
            is_read = verdict is robots.Verdict.RULES and body == response.body
            await self._store(host, packed, KEPT_S, rules if is_read else None)
            self._tell_of_sitemaps(host)

    def _tell_of_sitemaps(self, host: str) -> None:
        known = self._known.get(host)
        if self._on_sitemaps is not None and known and known.rules:
            self._on_sitemaps(host, known.rules.sitemaps)

    def _followed(self, response: Response, request: Request) -> bool:
        """Queue where a robots.txt has moved to, at the host it has moved to."""
        to = location(response.headers.get("Location"))
        if not to:
            return False
        try:
            target = normalise(to, normalise(response.url))
        except UrlError:
            return False
        meta = {ROBOTS_TXT: request.meta[ROBOTS_TXT], "hops": request.meta.get("hops", 0) + 1}
        entry = encode_rest(target.path, {"meta": meta})
        # Pages of the other host wait for it, and they may come before all that waits at this one.
        level = FIRST if target.host == request.meta[ROBOTS_TXT] else MOVED
        self._push(Push(Kind.UNFILTERED, target.host, level, entry, str(target)))
        return True

    async def _unreachable(self, request: Request, held: Held) -> None:
        """Try again later, and after the last time leave the host alone for a while."""
        host = request.meta[ROBOTS_TXT]
        if held.attempts < self._max_attempts:
            held.retry_entry = held.lease.entry
            await self._keep(host, ASKED, ASKED_S)
            return
        held.filtered = REASON
        denial = robots.pack(held.status, robots.Verdict.DENY_ALL)
        await self._store(host, denial, UNREACHABLE_S)

    def _ask(self, host: str, kind: Kind) -> None:
        self._push(Push(kind, host, FIRST, _entry(host), f"robots {host}"))

    # What is kept

    async def _store(
        self, host: str, packed: bytes, seconds: int, rules: robots.RobotsRules | None = None
    ) -> None:
        await self._keep(host, packed, seconds)
        await self._remember(host, packed, seconds, rules)

    async def _keep(self, host: str, packed: bytes, seconds: int) -> None:
        try:
            await self._frontier.client.set(self._key(host), packed, ex=seconds)
        except OutOfMemoryError:
            logger.info("Redis has no room for %s/robots.txt: other workers ask for it too", host)

    async def _remember(
        self, host: str, packed: bytes, seconds: int, rules: robots.RobotsRules | None = None
    ) -> None:
        """`rules` are those of the file, if it has been read already."""
        stored = robots.unpack(packed)
        if stored is None:
            await self._clear(host)
            return
        rules = rules or await self._read(stored)
        self._forget(host)
        now = time.monotonic()
        rest_s = self._first_rest_s(rules, KEPT_S - seconds) if rules and stored.borrowed else 0.0
        until, size = now + min(seconds, RECHECK_S), rules.size_bytes if rules else 0
        self._known[host] = Known(rules, until, size, now + rest_s)
        self._known_bytes += size
        self._claimed.pop(host, None)
        while len(self._known) > REMEMBERED or self._known_bytes > REMEMBERED_BYTES:
            self._forget(next(iter(self._known)))

    async def _read(self, stored: robots.Stored) -> robots.RobotsRules | None:
        if stored.verdict is robots.Verdict.DENY_ALL:
            return None
        if len(stored.body) <= LONG_BYTES:
            return stored.rules(self._user_agent)
        return await asyncio.to_thread(stored.rules, self._user_agent)

    def _forget(self, host: str) -> None:
        if known := self._known.pop(host, None):
            self._known_bytes -= known.size

    def _first_rest_s(self, rules: robots.RobotsRules, age_s: int) -> float:
        """What is left of a Crawl-delay that came from another host, where it was not kept."""
        delay_s = min(rules.delay_s or 0.0, self._longest_pause_s)
        return max(0.0, delay_s - max(0, age_s - CLOCK_S))

    async def _clear(self, host: str, error: Exception | None = None) -> None:
        """Somebody else's bytes, or even another type, stand where the host's rules should."""
        if error and not str(error).startswith("WRONGTYPE"):
            raise error
        logger.warning("What is kept of %s/robots.txt cannot be read; it is fetched again", host)
        await self._frontier.client.delete(self._key(host))
        self._claimed[host] = 0.0

    def _key(self, host: str) -> str:
        return keys.robots(self._frontier.crawl, self._frontier.shard_of(host).number, host)


def _entry(host: str) -> bytes:
    return encode_rest(robots.PATH, {"meta": {ROBOTS_TXT: host}})


def _claim_s(lease: Lease) -> int:
    """How long others can leave it to the holder of a lease to ask for the host's robots.txt: not
    at all, if the lease is for the file of another host."""
    if lease.level < MOVED:
        return CLAIM_S
    is_its_own = lease.entry[1:] == _entry(lease.host)[1:]  # whatever the attempts so far
    return ASKED_S if is_its_own else 0


@contextmanager
def _fetched_again_after_an_outage(held: Held) -> Iterator[None]:
    """What Redis could not be told is lost: pages of the host would wait for it in vain."""
    try:
        yield
    except RedisError as error:
        logger.warning("%s/robots.txt is fetched again (%s)", held.lease.host, error)
        held.filtered, held.retry_entry = "", held.lease.entry


def _bound(table: OrderedDict[str, Any], most: int | None = None) -> None:
    while len(table) > (REMEMBERED if most is None else most):
        table.popitem(last=False)
