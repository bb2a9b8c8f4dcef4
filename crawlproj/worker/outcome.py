"""Decides what became of a leased request that has ended (`outcome_of`), from what was observed and
decided on the way (frontier/outcomes.py), and makes the settlement of it that the frontier takes
(`RetryPolicy`). No other place does either. Knows Scrapy's exceptions, not Redis.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import assert_never

from scrapy.exceptions import IgnoreRequest

from crawlproj.errors import RedirectLoop
from crawlproj.frontier.failures import MEANINGS, Health, meaning_of
from crawlproj.frontier.messages import Settlement
from crawlproj.frontier.outcomes import (
    Attempt,
    Done,
    Failed,
    Filtered,
    Outcome,
    PutOff,
    Retry,
    Returned,
    SetAside,
)
from crawlproj.frontier.pacing import RetryDelay
from crawlproj.reasons import CALLBACK

IGNORED = {"Forbidden by robots": "robots", "Filtered offsite": "offsite"}
"""What Scrapy's own middlewares say when they drop a request, and the reason that it is."""
_TOO_MANY_REDIRECTS = "max redirections reached"
"""What Scrapy's redirect middleware says of them when it drops a request."""

BROKEN_OFF_MS = 1000
"""How long a host is left alone after a request was broken off: its server may not have noticed."""

CLOCK_MS = 2
"""Added to every rest. The clock of Redis is cut to whole milliseconds and may be slewed: without
this a host could be asked up to 2 ms early."""

DONE = Done()


def outcome_of(attempt: Attempt, max_attempts: int) -> Outcome:
    """What becomes of a request that has ended, or that has not been made: what was decided, or
    else what its observations say."""
    decided = attempt.decided
    if isinstance(decided, Retry) and attempt.attempts >= max_attempts and not decided.is_another:
        return Failed(failure_reason(attempt) or "attempts")
    if decided is not None:
        return decided
    if reason := failure_reason(attempt):
        return Failed(reason)
    return DONE if attempt.status else Filtered(ignored_reason(attempt.error))


@dataclass(frozen=True)
class RetryPolicy:
    """How long to wait and how often to try."""

    pause_ms: int
    retry_delay: RetryDelay
    max_attempts: int

    def settlement(self, attempt: Attempt) -> Settlement:
        """What the frontier is told of a lease that has ended."""
        outcome = outcome_of(attempt, self.max_attempts)
        settlement = self._settlement(outcome, attempt)
        if isinstance(outcome, Returned):
            return settlement
        if not _is_untold(outcome):
            is_given_up = isinstance(outcome, Failed)
            settlement.status = attempt.answered if is_given_up else attempt.status
            settlement.size = attempt.size
        if attempt.downloaded_at is not None:
            self._add_host(settlement, attempt, attempt.downloaded_at)
        return settlement

    def _settlement(self, outcome: Outcome, attempt: Attempt) -> Settlement:
        token = attempt.lease.token
        match outcome:
            case Done():
                settled = Settlement(token, "done")
            case Failed(reason):
                settled = Settlement(token, "dead", reason=reason)
            case Filtered(reason):
                settled = Settlement(token, "filtered", reason=reason)
            case Retry(entry, is_another):
                delay_ms = 0 if is_another else self.retry_delay.after_ms(attempt.attempts)
                settled = Settlement(token, "retry", entry=entry, delay_ms=delay_ms)
            case PutOff(rest_ms):
                settled = Settlement(token, "wait", delay_ms=rest_ms, hold_ms=rest_ms)
            case Returned(hold_ms, group):
                settled = Settlement(token, "return", hold_ms=_rounded_up(hold_ms), group=group)
            case SetAside(pattern, why):
                settled = Settlement(token, "set_aside", reason=pattern, entry=why.encode())
            case _:
                assert_never(outcome)
        return settled

    def _add_host(self, settlement: Settlement, attempt: Attempt, ended_at_s: float) -> None:
        """When it may be asked again, by what the request has shown of it."""
        is_known = attempt.health is not Health.UNKNOWN
        settlement.ended_ago_ms = int((time.monotonic() - ended_at_s) * 1000)
        settlement.pause_ms = _rounded_up(attempt.pause_ms if is_known else self.pause_ms)
        settlement.failed, settlement.per_host = attempt.health.value, attempt.per_host
        settlement.hold_ms = _rounded_up(attempt.hold_ms)
        if attempt.hold_ms:
            settlement.hold_reason = _hold_reason(attempt)


def _is_untold(outcome: Outcome) -> bool:
    """Whether its response counts for nothing: it is no page, or another request asks the same
    once more, of which the answer counts."""
    return isinstance(outcome, Filtered | SetAside) or (
        isinstance(outcome, Retry) and outcome.is_another
    )


def _rounded_up(rest_ms: int) -> int:
    return rest_ms + CLOCK_MS if rest_ms else 0


def _hold_reason(attempt: Attempt) -> str:
    """Why its host is to be left alone, whatever becomes of the URL."""
    if attempt.error is not None:
        return meaning_of(attempt.error).reason
    return f"http_{attempt.server_status}" if attempt.server_status else ""


def failure_reason(attempt: Attempt) -> str:
    """Why a request failed, as a short word that can be counted; '' if it did not."""
    if attempt.callback_error:
        return CALLBACK + attempt.callback_error
    if status := _refused_status(attempt):
        return f"http_{status}"
    if str(attempt.error or "") == _TOO_MANY_REDIRECTS:
        return MEANINGS[RedirectLoop].reason
    if attempt.error is not None and not isinstance(attempt.error, IgnoreRequest):
        return meaning_of(attempt.error).reason
    return ""


def _refused_status(attempt: Attempt) -> int:
    """The status of a response that no callback was given for being no success; 0 if there was
    none. A redirect that a middleware has given up is not judged by its status."""
    status = attempt.status or (attempt.server_status if attempt.server_status >= 400 else 0)
    return 0 if attempt.is_delivered or 200 <= status < 300 else status


def ignored_reason(error: Exception | None) -> str:
    """Why a middleware dropped a request."""
    text = str(error or "")
    for beginning, reason in IGNORED.items():
        if text.startswith(beginning):
            return reason
    return meaning_of(error or IgnoreRequest()).reason
