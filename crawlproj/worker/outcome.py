"""What became of a leased request that has ended, and what the frontier is told about it.

The one place that decides it (`outcome_of`), from what was observed and what was decided on the
way (frontier/outcomes.py), and the one that puts it into the frontier's words (`Patience`). Knows
Scrapy's exceptions, not Redis.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import assert_never

from scrapy.exceptions import IgnoreRequest

from crawlproj.frontier.messages import Settlement
from crawlproj.frontier.outcomes import (
    Done,
    Failed,
    Filtered,
    Health,
    Held,
    Outcome,
    PutOff,
    Retry,
    Returned,
    SetAside,
)

_IGNORED = {
    "Forbidden by robots": "robots",
    "Filtered offsite": "offsite",
    "Refused address": "address",
}
_FAILURES = {
    "CannotResolveHostError": "dns",
    "DownloadTimeoutError": "timeout",
    "DownloadConnectionRefusedError": "connection",
    "DownloadCancelledError": "size",
    "ResponseDataLossError": "truncated",
    "UnsupportedURLSchemeError": "scheme",
    "DownloadFailedError": "connection",
    "BadResponse": "protocol",
    "BadCertificate": "certificate",
    "RedirectLoop": "redirect_loop",
    "RedirectNowhere": "redirect_nowhere",
}
_TOO_MANY_REDIRECTS = "max redirections reached"
"""What Scrapy's redirect middleware says of them when it drops a request."""

BROKEN_OFF_MS = 1000
"""How long a host is left alone after a request was broken off: its server may not have noticed."""

CLOCK_MS = 2
"""What whole milliseconds cut off the frontier's clock, and a clock that is being set right off
the time between: a rest is longer by this, never shorter than asked for."""

DONE = Done()


def outcome_of(held: Held, max_attempts: int) -> Outcome:
    """What becomes of a request that has ended, or that has not been made: what was decided, or
    else what its observations say."""
    decided = held.decided
    if isinstance(decided, Retry) and held.attempts >= max_attempts:
        return Failed(failure_reason(held) or "attempts")
    if decided is not None:
        return decided
    if reason := failure_reason(held):
        return Failed(reason)
    return DONE if held.status else Filtered(ignored_reason(held.error))


@dataclass(frozen=True)
class Patience:
    """How long to wait and how often to try."""

    pause_ms: int
    retry_delay_ms: int
    max_attempts: int

    def settlement(self, held: Held) -> Settlement:
        """What the frontier is told of a lease that has ended."""
        outcome = outcome_of(held, self.max_attempts)
        settlement = self._told(outcome, held)
        if isinstance(outcome, Returned):
            return settlement
        if not isinstance(outcome, Filtered | SetAside):
            settlement.status, settlement.size = held.status, held.size
        if held.downloaded_at is not None:
            self._tell_of_host(settlement, held, held.downloaded_at)
        return settlement

    def _told(self, outcome: Outcome, held: Held) -> Settlement:
        token = held.lease.token
        match outcome:
            case Done():
                told = Settlement(token, "done")
            case Failed(reason):
                told = Settlement(token, "dead", reason=reason)
            case Filtered(reason):
                told = Settlement(token, "filtered", reason=reason)
            case Retry(entry):
                delay_ms = self.retry_delay_ms * 2 ** (held.attempts - 1)
                told = Settlement(token, "retry", entry=entry, delay_ms=delay_ms)
            case PutOff(rest_ms):
                told = Settlement(token, "wait", delay_ms=rest_ms, hold_ms=rest_ms)
            case Returned(hold_ms, group):
                told = Settlement(token, "return", hold_ms=_rounded_up(hold_ms), group=group)
            case SetAside(pattern, why):
                told = Settlement(token, "aside", reason=pattern, entry=why.encode())
            case _:
                assert_never(outcome)
        return told

    def _tell_of_host(self, settlement: Settlement, held: Held, ended_at_s: float) -> None:
        """When it may be asked again, by what the request has shown of it."""
        is_known = held.health is not Health.UNKNOWN
        settlement.ended_ago_ms = int((time.monotonic() - ended_at_s) * 1000)
        settlement.pause_ms = _rounded_up(held.pause_ms if is_known else self.pause_ms)
        settlement.failed, settlement.per_host = held.health.value, held.per_host
        settlement.hold_ms = _rounded_up(held.hold_ms)
        if held.hold_ms:
            settlement.hold_reason = _hold_reason(held)


def _rounded_up(rest_ms: int) -> int:
    return rest_ms + CLOCK_MS if rest_ms else 0


def _hold_reason(held: Held) -> str:
    """Why its host is to be left alone, whatever becomes of the URL."""
    if held.error is not None:
        return _error_reason(held.error)
    return f"http_{held.last_status}" if held.last_status else ""


def _error_reason(error: Exception) -> str:
    name = type(error).__name__
    return _FAILURES.get(name, name)


def failure_reason(held: Held) -> str:
    """Why a request failed, as a short word that can be counted; '' if it did not."""
    if held.callback_error:
        return f"callback_{held.callback_error}"
    status = held.status or held.last_status
    if status >= 400 and not held.is_delivered:
        return f"http_{status}"
    if str(held.error or "") == _TOO_MANY_REDIRECTS:
        return _FAILURES["RedirectLoop"]
    if held.error is not None and not isinstance(held.error, IgnoreRequest):
        return _error_reason(held.error)
    return ""


def ignored_reason(error: Exception | None) -> str:
    """Why a middleware dropped a request."""
    text = str(error or "")
    for beginning, reason in _IGNORED.items():
        if text.startswith(beginning):
            return reason
    return "ignored"
