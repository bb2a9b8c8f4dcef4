"""The fetching of robots.txt files: what becomes of each answer, by RFC 9309. Where a robots.txt
redirects, it goes on in the queue of the host it leads to, and is answered from what is known of
that host, if that is known.

Knows how a file is asked for and answered, not who waits for it (permission.py).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

from crawlproj.errors import AddressRefused
from crawlproj.frontier import pacing
from crawlproj.frontier.messages import Kind, Push
from crawlproj.frontier.meta_keys import BEGINNING
from crawlproj.frontier.outcomes import Attempt, Filtered, Retry
from crawlproj.frontier.pacing import RetryDelay
from crawlproj.politeness import robots
from crawlproj.politeness.known_robots import KnownRobots
from crawlproj.politeness.robot_rules import PATH, RobotsRules
from crawlproj.politeness.robots_search import RobotsSearch, target_of
from crawlproj.politeness.robots_store import ASKED_S, KEPT_S
from crawlproj.urls import Url

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response
    from twisted.python.failure import Failure

logger = logging.getLogger(__name__)

ROBOTS_READ = "robots_txt"
"""How the ledger counts a robots.txt that has been dealt with."""

UNREACHABLE_S = 600
"""How long a host whose robots.txt cannot be had is left alone, before it is asked again."""

NO_FILE = robots.pack(0, robots.Verdict.ALLOW_ALL)

UNPACKED_BYTES = 16 * 2**20
"""What a compressed robots.txt may grow to; the crawl's own limit is about pages."""


class RobotsFetch:
    """Takes the answers of one worker's requests for robots.txt files, and makes them known."""

    def __init__(
        self,
        known: KnownRobots,
        push: Callable[[Push], None],
        *,
        max_attempts: int,
        retry_delay: RetryDelay,
        longest_pause_s: float,
    ) -> None:
        self._known = known
        self._push = push
        self._max_attempts = max_attempts
        self._retry_delay = retry_delay
        self._longest_pause_s = longest_pause_s

    def prepare(self, request: Request, search: RobotsSearch, attempt: Attempt) -> None:
        """Let a request come back here, however it ends."""
        request.meta.update(handle_httpstatus_all=True, dont_redirect=True, dont_retry=True)
        request.meta.update({BEGINNING: robots.MOST_BYTES, "download_maxsize": UNPACKED_BYTES})

        async def received(response: Response) -> None:
            with _fetched_again_after_an_outage(attempt):
                await self._received(response, search, attempt)

        async def failed(failure: Failure) -> None:
            with _fetched_again_after_an_outage(attempt):
                is_own = search == RobotsSearch.of(attempt.lease.host)
                if is_own and isinstance(failure.value, AddressRefused):
                    await self._leave_alone(search, attempt, robots.Verdict.NOT_CONTACTED)
                else:
                    await self._unreachable(search, attempt)

        request.callback = received
        request.errback = failed

    async def _received(self, response: Response, search: RobotsSearch, attempt: Attempt) -> None:
        verdict = robots.judge(response.status, search.hops)
        attempt.decide(Filtered(ROBOTS_READ))
        if verdict is robots.Verdict.DENY_ALL:
            await self._unreachable(search, attempt)
        elif verdict is robots.Verdict.RULES:
            await self._obey(response, search, attempt)
        elif 300 <= response.status < 400:
            is_followed = verdict is robots.Verdict.REDIRECT
            if not is_followed or not await self._follow(target_of(response), search, attempt):
                # Too many redirects, or one to nowhere; other hosts may get here by fewer.
                await self._known.keep(search._replace(via=()), NO_FILE, KEPT_S)
        else:
            nothing = robots.pack(response.status, robots.Verdict.ALLOW_ALL)
            at_host = attempt.lease.host
            await self._known.keep_fetched(search, at_host, nothing, KEPT_S, RobotsRules())

    async def _obey(self, response: Response, search: RobotsSearch, attempt: Attempt) -> None:
        at_host = attempt.lease.host
        rules, record = await self._known.digest(response.status, response.body)
        if rules.is_too_much:
            logger.warning("%s has more rules than are kept: it allows nothing", search.url)
        if search.is_own_of(at_host):
            most_ms = round(self._longest_pause_s * 1000)
            delay_ms = pacing.pause_ms(0, rules.delay_s, 0, factor=0, most_ms=most_ms)
            attempt.pause_ms = max(attempt.pause_ms, delay_ms)
        await self._known.keep_fetched(search, at_host, record, KEPT_S, rules)

    async def _follow(self, target: Url | None, search: RobotsSearch, attempt: Attempt) -> bool:
        """Go on to where a robots.txt has moved to, if that is anywhere."""
        if target is None:
            return False
        if target.path == PATH and await self._copy(target.host, search):
            return True
        moved = search.led_to(target, attempt.lease.host)
        elsewhere = target.host if target.host != search.host else ""
        # First, or it would replace the record of another worker that is quick to fetch the file.
        if await self._known.store.claim(search.host, ASKED_S, elsewhere):
            self._push(moved.push(Kind.UNFILTERED, target))
        return True

    async def _copy(self, from_host: str, search: RobotsSearch) -> bool:
        """Take what is known of the host that a robots.txt has moved to; False if nothing is."""
        kept = (await self._known.store.look_up({from_host: 0}))[from_host]
        if not kept.record or not robots.unpack(kept.record):
            return False
        copied = robots.for_another_host(kept.record, copied=True)
        await self._known.keep(search, copied, kept.left_s)
        await self._known.read_soon(search.host, kept.record, kept.left_s, names_sitemaps=True)
        return True

    async def _unreachable(self, search: RobotsSearch, attempt: Attempt) -> None:
        """Try again later, and after the last time leave the host alone for a while."""
        if attempt.attempts < self._max_attempts:
            attempt.decide(Retry(attempt.lease.entry))
            delay_s = math.ceil(self._retry_delay.after_ms(attempt.attempts) / 1000)
            elsewhere = attempt.lease.host if attempt.lease.host != search.host else ""
            if not await self._known.store.claim(search.host, ASKED_S + delay_s, elsewhere):
                attempt.decide(Filtered(ROBOTS_READ))
            return
        await self._leave_alone(search, attempt, robots.Verdict.DENY_ALL)

    async def _leave_alone(
        self, search: RobotsSearch, attempt: Attempt, verdict: robots.Verdict
    ) -> None:
        attempt.decide(Filtered(ROBOTS_READ))
        denial = robots.pack(attempt.status, verdict)
        at_host = attempt.lease.host
        await self._known.keep_fetched(search, at_host, denial, UNREACHABLE_S, None)


@contextmanager
def _fetched_again_after_an_outage(attempt: Attempt) -> Iterator[None]:
    """What Redis could not be told is lost: pages of the host would wait for it in vain."""
    try:
        yield
    except RedisError as error:
        logger.warning("%s/robots.txt is fetched again (%s)", attempt.lease.host, error)
        attempt.decide(Retry(attempt.lease.entry))
