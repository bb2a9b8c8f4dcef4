"""What a response or an error says about how its host wants to be treated.

The frontier keeps each host's pace for all workers; this middleware tells it, request by request,
how long the host should rest, whether it is failing, and for how long nobody should ask it. It
decides nothing about the request itself.
"""

from __future__ import annotations

import logging
import random
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from scrapy.exceptions import NotConfigured

from crawlproj.config import Config
from crawlproj.frontier import pacing
from crawlproj.frontier.failures import Health, meaning_of
from crawlproj.frontier.meta_keys import RENDER_S
from crawlproj.frontier.outcomes import TRANSIENT_STATUSES, Attempt
from crawlproj.running import RunningCrawl, is_in_use, running_crawl
from crawlproj.urls import MAX_SHOWN

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

logger = logging.getLogger(__name__)


class PolitenessMiddleware:
    """Notes pause, hold and health of the host on each leased request."""

    def __init__(self, config: Config, crawler: Crawler) -> None:
        self._crawler = crawler
        self._has_warned = False
        self._slowness = config.slowness
        self._longest_pause_ms = round(config.longest_pause_s * 1000)
        self._backoff_ms = round(config.backoff_s * 1000)
        self._longest_hold_ms = round(config.longest_hold_s * 1000)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not is_in_use(crawler.settings):
            raise NotConfigured("without crawlproj's scheduler nobody keeps a pace")
        return cls(Config.from_settings(crawler.settings), crawler)

    def process_response(self, request: Request, response: Response) -> Response:
        crawl = running_crawl(self._crawler)
        if crawl and (attempt := self._leased_of(crawl, request)):
            failed = response.status in TRANSIENT_STATUSES
            attempt.server_status = response.status
            overloaded = response.status in pacing.OVERLOADED
            unwell = Health.OVERLOADED if overloaded else Health.FAILED
            health = unwell if failed else Health.ANSWERED
            self._note(crawl, attempt, health, request)
            if failed:
                asked = response.headers.get("Retry-After")
                self._hold(crawl, attempt, response.status, asked)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        health = meaning_of(exception).health
        if health is Health.UNKNOWN:
            return
        crawl = running_crawl(self._crawler)
        if crawl and (attempt := self._leased_of(crawl, request)):
            self._note(crawl, attempt, health, request)
            if health is Health.FAILED:
                self._hold(crawl, attempt, 0, None)

    def _leased_of(self, crawl: RunningCrawl, request: Request) -> Attempt | None:
        attempt = crawl.tracking.of(request)
        if attempt is None and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%s was not asked for through the frontier: such requests keep no host's pace and "
                "heed no robots.txt (docs/politeness.md); this is said once",
                request.url[:MAX_SHOWN],
            )
        return attempt

    def _note(
        self, crawl: RunningCrawl, attempt: Attempt, health: Health, request: Request
    ) -> None:
        scripts_s = request.meta.get(RENDER_S, 0.0)  # of the time that it took, ours
        host = attempt.lease.host
        override = crawl.frontier.overrides.for_host(host)
        # The crawl's delay, not this worker's: whoever began it has set it for all.
        crawl_s = crawl.frontier.plan.delay_s
        delay_s = crawl_s if override.delay_s is None else override.delay_s
        attempt.health = health
        attempt.per_host = crawl.frontier.connections(attempt.lease)
        attempt.pause_ms = pacing.pause_ms(
            round(delay_s * 1000),
            # The pause after a robots.txt itself is noted by those who read it.
            crawl.permission.delay_s(host) if crawl.permission is not None else None,
            (time.monotonic() - attempt.started_at - scripts_s) * 1000,
            factor=self._slowness if delay_s else 0,
            most_ms=self._longest_pause_ms,
        )

    def _hold(
        self, crawl: RunningCrawl, attempt: Attempt, status: int, retry_after: bytes | None
    ) -> None:
        attempt.hold_ms = pacing.hold_ms(
            status,
            pacing.retry_after_ms(retry_after, datetime.now(UTC), most_ms=self._longest_hold_ms),
            attempt.lease.host_failures + 1,
            base_ms=self._backoff_ms,
            most_ms=self._longest_hold_ms,
            jitter=random.random(),
        )
        crawl.holds.note(
            attempt.lease, attempt.hold_ms, for_group=attempt.health is Health.OVERLOADED
        )
