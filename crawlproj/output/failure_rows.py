"""The rows of URLs that were given up, if the project wants them (CRAWL_REPORTS)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crawlproj.frontier.records import summarise
from crawlproj.frontier.request_identity import identity_of
from crawlproj.items import TRANSIENT, FailureItem, utc_timestamp
from crawlproj.output.report_feeds import ReportFeeds

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from crawlproj.frontier.messages import Lost
    from crawlproj.frontier.outcomes import Attempt


class FailureRows:
    """Those that one worker writes."""

    def __init__(self, crawler: Crawler, worker: str, wanted: bool) -> None:
        self._feeds = ReportFeeds(crawler)
        self._worker = worker
        self._wanted = wanted

    async def write_dead(self, attempt: Attempt, reason: str) -> None:
        """Of a URL that this worker gives up."""
        about = attempt.about
        await self._write(
            url=about.url,
            status=attempt.answered,
            kind=attempt.kind,
            reason=reason,
            referer=about.referer,
            depth=about.depth,
            attempts=attempt.attempts,
            request=identity_of(attempt.lease.entry),
            lease=attempt.lease.token,
        )

    async def write_lost(self, lost: Lost) -> None:
        """Of a URL that was lost with its workers too often."""
        about = summarise(lost.host, lost.entry)
        await self._write(
            url=about.url,
            kind=TRANSIENT,
            reason="worker_lost",
            referer=about.referer,
            depth=about.depth,
            attempts=about.attempts,
            request=identity_of(lost.entry),
        )

    async def _write(self, **columns: Any) -> None:
        if self._wanted:
            item = FailureItem(failed_at=utc_timestamp(), worker=self._worker, **columns)
            await self._feeds.send(item)
