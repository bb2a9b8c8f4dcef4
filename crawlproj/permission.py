"""What each host's robots.txt allows, known to all workers once one of them has fetched it.

A robots.txt is a URL like any other: it stands in its host's queue, in front of everything, keeps
the host's pace and is accounted for. What was found is kept in Redis for a day. A page whose host
has not been heard yet is put off; no page is fetched before.
"""

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.exceptions import OutOfMemoryError, RedisError
from scrapy import Request

from crawlproj import keys, robots
from crawlproj.download import BEGINNING
from crawlproj.frontier.messages import Kind, Push
from crawlproj.frontier.scoring import HIGHEST
from crawlproj.outcomes import Held
from crawlproj.records import encode_rest
from crawlproj.urls import UrlError, location, normalise

if TYPE_CHECKING:
    from scrapy.http import Response
    from twisted.python.failure import Failure

    from crawlproj.frontier.frontier import Frontier

logger = logging.getLogger(__name__)

FIRST = HIGHEST + 1
"""The level of a robots.txt: before every page of its host."""

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
"""Of robots.txt files whose rules are remembered: one may have 500 KiB."""

UNPACKED_BYTES = 16 * 2**20
"""What a compressed robots.txt may grow to; the crawl's own limit is about pages."""

ASKED = b""
"""Kept where a host's rules will be, while somebody is on the way to fetch them."""

CLOCK_S = 1
"""By how much the age of a key may be overrated: Redis tells it in whole seconds."""

ASKED_S = 60
"""How long others trust in that, before one of them asks again."""


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
        # Hosts that pages in hand wait for, and when to ask for their robots.txt again.
        self._put_off: OrderedDict[str, float] = OrderedDict()
        self._known_bytes = 0

    # For those who find and fetch pages

    def introduce(self, host: str) -> None:
        """A page of this host is about to be queued: its robots.txt goes first."""
        if host not in self._introduced and self._is_obeyed(host):
            self._introduced[host] = None
            _bound(self._introduced)
            self._ask(host, Kind.LINK)

    async def learn(self, hosts: Iterable[str]) -> None:
        """Hear what other workers have found about these hosts."""
        unknown = [host for host in dict.fromkeys(hosts) if self._knowledge(host) is None]
        if not unknown:
            return
        replies = await self._look_up(unknown, claim=True)
        if any(isinstance(reply, OutOfMemoryError) for reply in replies):
            replies = await self._look_up(unknown, claim=False)
        for host, packed, ttl_s in zip(unknown, replies[::2], replies[1::2], strict=True):
            if isinstance(packed, Exception):
                await self._clear(host, packed)
            elif packed:
                await self._remember(host, packed, max(1, ttl_s))
            elif packed is None and self._put_off.get(host, math.inf) <= time.monotonic():
                self._put_off[host] = time.monotonic() + ASKED_S
                self._ask(host, Kind.UNFILTERED)

    async def _look_up(self, hosts: list[str], *, claim: bool) -> list[Any]:
        """What is kept of each, and for how long; who finds nothing is the one to ask, unless
        there is no room to say so: then everyone who needs it asks."""
        pipeline = self._frontier.client.pipeline(transaction=False)
        for host in hosts:
            if claim:
                pipeline.set(self._key(host), ASKED, nx=True, get=True, ex=ASKED_S)
            else:
                pipeline.get(self._key(host))
            pipeline.ttl(self._key(host))
        replies: list[Any] = await pipeline.execute(raise_on_error=False)
        return replies

    def refusal(self, host: str, url: str) -> str | None:
        """Why a page must not be fetched: its reason, '' if that is not known yet, else None."""
        if not self._is_obeyed(host):
            return None
        known = self._knowledge(host)
        if known is None:
            self._put_off.setdefault(host, 0.0)
            _bound(self._put_off)
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

    def delay_in_s(self, response: Response) -> float | None:
        """The Crawl-delay in a robots.txt that has just come."""
        if robots.judge(response.status) is not robots.Verdict.RULES:
            return None
        return robots.parse(response.body, self._user_agent).delay_s

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
            await self._store(host, packed, KEPT_S)
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
        self._push(Push(Kind.UNFILTERED, target.host, FIRST, entry, str(target)))
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
        entry = encode_rest("/robots.txt", {"meta": {ROBOTS_TXT: host}})
        self._push(Push(kind, host, FIRST, entry, f"robots {host}"))

    # What is kept

    async def _store(self, host: str, packed: bytes, seconds: int) -> None:
        await self._keep(host, packed, seconds)
        await self._remember(host, packed, seconds)

    async def _keep(self, host: str, packed: bytes, seconds: int) -> None:
        try:
            await self._frontier.client.set(self._key(host), packed, ex=seconds)
        except OutOfMemoryError:
            logger.info("Redis has no room for %s/robots.txt: other workers ask for it too", host)

    async def _remember(self, host: str, packed: bytes, seconds: int) -> None:
        stored = robots.unpack(packed)
        if stored is None:
            await self._clear(host)
            return
        denies = stored.verdict is robots.Verdict.DENY_ALL
        rules = None if denies else stored.rules(self._user_agent)
        self._forget(host)
        now = time.monotonic()
        rest_s = self._first_rest_s(rules, KEPT_S - seconds) if rules and stored.borrowed else 0.0
        until, size = now + min(seconds, RECHECK_S), len(stored.body)
        self._known[host] = Known(rules, until, size, now + rest_s)
        self._known_bytes += size
        self._put_off.pop(host, None)
        while len(self._known) > REMEMBERED or self._known_bytes > REMEMBERED_BYTES:
            self._forget(next(iter(self._known)))

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

    def _key(self, host: str) -> str:
        return keys.robots(self._frontier.crawl, self._frontier.shard_of(host).number, host)


@contextmanager
def _fetched_again_after_an_outage(held: Held) -> Iterator[None]:
    """What Redis could not be told is lost: pages of the host would wait for it in vain."""
    try:
        yield
    except RedisError as error:
        logger.warning("%s/robots.txt is fetched again (%s)", held.lease.host, error)
        held.filtered, held.retry_entry = "", held.lease.entry


def _bound(table: OrderedDict[str, Any]) -> None:
    while len(table) > REMEMBERED:
        table.popitem(last=False)
