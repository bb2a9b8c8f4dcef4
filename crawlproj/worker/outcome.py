"""What became of a leased request, and what the frontier is told about it.

Notes are taken while Scrapy works on the request; when it has ended they add up to one verdict.
Knows Scrapy's exceptions, not Redis.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from scrapy.exceptions import IgnoreRequest

from crawlproj.discover.quarantine import Aside
from crawlproj.frontier.messages import Lease, Settlement
from crawlproj.frontier.records import Glance, glance
from crawlproj.items import PERMANENT, TRANSIENT

TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504, 522, 524})
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
_PERMANENT = frozenset({"DownloadCancelledError", "UnsupportedURLSchemeError"}) | {
    "BadResponse",
    "BadCertificate",
}


class RedirectLoop(Exception):
    """Redirects that lead in a circle, or too far."""


class RedirectNowhere(Exception):
    """A redirect to something that is no URL."""


class NoLongerOurs(IgnoreRequest):
    """A request that was not made, or broken off, because others may have taken it over."""

    def __init__(self) -> None:
        super().__init__("Redis has been away for too long: others may have taken this over")


@dataclass(slots=True)
class Held:
    """A lease in the engine's hands, and the notes taken on it."""

    lease: Lease
    since: int = 0
    started_at: float = field(default_factory=time.monotonic)
    downloaded_at: float | None = None
    status: int = 0
    last_status: int = 0
    size: int = 0
    error: Exception | None = None
    delivered: bool = False
    callback_error: str = ""
    bad_record: bool = False
    filtered: str = ""
    aside: Aside | None = None
    put_off: bool = False
    returned: bool = False
    pause_ms: int = 0
    hold_ms: int = 0
    failed: int = 0
    per_host: int = 0
    group: str = ""
    retry_entry: bytes | None = None

    @property
    def about(self) -> Glance:
        """URL, depth, referer and attempts, as reports show them."""
        return glance(self.lease.host, self.lease.entry)

    @property
    def attempts(self) -> int:
        """Times it has been tried, this one included."""
        entry = self.lease.entry
        return entry[0] + 1 if entry else 1

    @property
    def ended_ago_s(self) -> float:
        """Since the response had come, from where its host's pause runs."""
        return 0.0 if self.downloaded_at is None else time.monotonic() - self.downloaded_at

    @property
    def took_s(self) -> float:
        """From the beginning of the request until the response had come."""
        ended_at = time.monotonic() if self.downloaded_at is None else self.downloaded_at
        return ended_at - self.started_at

    @property
    def kind(self) -> str:
        """Whether trying again later might help."""
        if status := self.status or self.last_status:
            passing = status in TRANSIENT_STATUSES and not self.callback_error
        else:
            passing = self.error is not None and may_pass(self.error)
        return TRANSIENT if passing else PERMANENT


BROKEN_OFF_MS = 1000
"""How long a host is left alone after a request was broken off: its server may not have noticed."""

PUT_OFF_MS = 300
"""How long a page waits for its host's robots.txt before it is looked at again, and its host with
it: the next page could only be put off as well."""


CLOCK_MS = 2
"""What whole milliseconds cut off the frontier's clock, and a clock that is being set right off
the time between: a rest is longer by this, never shorter than asked for."""


@dataclass(frozen=True)
class Patience:
    """How long to wait and how often to try."""

    pause_ms: int
    retry_delay_ms: int
    max_attempts: int

    def settlement(self, held: Held) -> Settlement:
        """The verdict on a request that has ended, or that has not been made."""
        if held.returned:
            hold_ms = _rounded_up(held.hold_ms)
            return Settlement(held.lease.token, "return", hold_ms=hold_ms, group=held.group)
        settlement = self._verdict(held)
        if settlement.verdict not in ("filtered", "aside"):
            settlement.status, settlement.size = held.status, held.size
        if held.downloaded_at is not None:
            settlement.ended_ago_ms = int((time.monotonic() - held.downloaded_at) * 1000)
            settlement.pause_ms = _rounded_up(held.pause_ms if held.failed else self.pause_ms)
            settlement.failed, settlement.hold_ms = held.failed, _rounded_up(held.hold_ms)
            settlement.per_host = held.per_host
            if held.hold_ms:
                settlement.hold_reason = _hold_reason(held)
        return settlement

    def _verdict(self, held: Held) -> Settlement:
        token = held.lease.token
        if held.put_off:
            rest_ms = max(held.hold_ms, PUT_OFF_MS)
            return Settlement(token, "wait", delay_ms=rest_ms, hold_ms=rest_ms)
        if held.retry_entry is not None and held.attempts < self.max_attempts:
            delay_ms = self.retry_delay_ms * 2 ** (held.attempts - 1)
            return Settlement(token, "retry", entry=held.retry_entry, delay_ms=delay_ms)
        if held.aside or held.filtered:
            return _filtered(held)
        reason = failure_reason(held)
        if reason:
            return Settlement(token, "dead", reason=reason)
        if held.status:
            return Settlement(token, "done")
        return Settlement(token, "filtered", reason=ignored_reason(held.error))


def _hold_reason(held: Held) -> str:
    """Why its host is to be left alone, whatever becomes of the URL."""
    if held.error is not None:
        return _error_reason(held.error)
    return f"http_{held.last_status}" if held.last_status else ""


def _error_reason(error: Exception) -> str:
    name = type(error).__name__
    return _FAILURES.get(name, name)


def _filtered(held: Held) -> Settlement:
    if held.aside is None:
        return Settlement(held.lease.token, "filtered", reason=held.filtered)
    pattern, why = held.aside
    return Settlement(held.lease.token, "aside", reason=pattern, entry=why.encode())


def _rounded_up(rest_ms: int) -> int:
    return rest_ms + CLOCK_MS if rest_ms else 0


def may_pass(error: Exception) -> bool:
    """Whether an error says something about the moment, and not about the URL."""
    return not isinstance(error, IgnoreRequest) and type(error).__name__ not in _PERMANENT


def failure_reason(held: Held) -> str:
    """Why a request failed, as a short word that can be counted; '' if it did not."""
    if held.bad_record:
        return "bad_record"
    if held.callback_error:
        return f"callback_{held.callback_error}"
    status = held.status or held.last_status
    if status >= 400 and not held.delivered:
        return f"http_{status}"
    if str(held.error or "") == _TOO_MANY_REDIRECTS:
        return _FAILURES[RedirectLoop.__name__]
    if held.error is not None and not isinstance(held.error, IgnoreRequest):
        return _error_reason(held.error)
    return "attempts" if held.retry_entry is not None else ""


def ignored_reason(error: Exception | None) -> str:
    """Why a middleware dropped a request."""
    text = str(error or "")
    for beginning, reason in _IGNORED.items():
        if text.startswith(beginning):
            return reason
    return "ignored"
