"""What can become of a lease: a closed set of cases, each with what belongs to it. Pure.

Everybody who handles a leased request writes down what is observed of it (`Attempt`). A decision is
needed only where observations do not say enough: a robots.txt that has been read is filtered,
whatever its status. worker/outcome.py makes the one outcome of observations and decision.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from crawlproj.frontier.failures import Health, meaning_of
from crawlproj.frontier.messages import Lease
from crawlproj.frontier.records import EntrySummary, last_visit, summarise
from crawlproj.frontier.visits import Found
from crawlproj.items import PERMANENT, TRANSIENT, PageItem

TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504, 522, 524})

PUT_OFF_MS = 300
"""How long a page waits for its host's robots.txt before it is looked at again, and its host with
it: the next page could only be put off as well."""

BAD_RECORD = "bad_record"
"""Why a lease failed of which no request can be made."""

READ_AS_PAGE = "read_as_page"
"""Why a link is not asked whether it is there: its page is fetched by another way."""


@dataclass(frozen=True, slots=True)
class Done:
    """Fetched, and dealt with by its callback."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Given up, for a reason that can be counted: a dead letter."""

    reason: str


@dataclass(frozen=True, slots=True)
class Retry:
    """To be tried again, as this entry, unless it has been tried too often."""

    entry: bytes
    is_another: bool = False
    """Whether the entry is another request than the one tried: attempts begin anew, and it waits
    for nothing but its turn at its host."""


@dataclass(frozen=True, slots=True)
class PutOff:
    """Not fetched, or broken off, through no fault of its own: it waits, and its host with it."""

    rest_ms: int = PUT_OFF_MS


@dataclass(frozen=True, slots=True)
class Returned:
    """Not begun: it goes back to where it was, with what has become known of its host."""

    hold_ms: int = 0
    group: str = ""


@dataclass(frozen=True, slots=True)
class Filtered:
    """Not wanted, or no page, for a reason that can be counted."""

    reason: str


@dataclass(frozen=True, slots=True)
class SetAside:
    """Kept for a user to release, since its pattern brings nothing new."""

    pattern: str
    why: str


Outcome = Done | Failed | Retry | PutOff | Returned | Filtered | SetAside


@dataclass(slots=True)
class Attempt:
    """A lease in this worker's hands, and what has been observed of its request so far."""

    lease: Lease
    links_found_before: int = 0
    """How many links had been found when it began: it answers for those found from then on
    (worker/outbox.py)."""
    started_at: float = field(default_factory=time.monotonic)
    downloaded_at: float | None = None
    status: int = 0
    """Of the response that came through all downloader middlewares, or of the redirect that one of
    them has made another request of; 0 if there was neither."""
    server_status: int = 0
    """Of the last response that the server sent, even if a middleware made another request of it
    or dropped it; 0 if there was none."""
    size: int = 0
    error: Exception | None = None
    is_delivered: bool = False
    """Whether its callback was given the response."""
    callback_error: str = ""
    health: Health = Health.UNKNOWN
    pause_ms: int = 0
    hold_ms: int = 0
    per_host: int = 0
    decided: Outcome | None = None
    stored: tuple[PageItem, bytes] | None = None
    """Its row and its body, where pages are kept by URL: in the store, once it is done."""

    found: Found | None = None
    """What its visit has found, where pages are revisited: it rests then, once it is done."""

    def decide(self, outcome: Outcome) -> None:
        """Say what becomes of it, whatever was or will be observed. The last word counts, but what
        was put off stays so: it is no longer ours to decide on."""
        if not isinstance(self.decided, PutOff):
            self.decided = outcome

    @property
    def about(self) -> EntrySummary:
        """URL, depth, referer and attempts, as reports show them."""
        return summarise(self.lease.host, self.lease.entry)

    @property
    def visited(self) -> tuple[int, str] | None:
        """Of a page that is revisited: its priority, and what its last visit has left."""
        return last_visit(self.lease.entry)

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
    def answered(self) -> int:
        """The status of the response that came through, else of the last that the server sent; 0 if
        there was none."""
        return self.status or self.server_status

    @property
    def kind(self) -> str:
        """Whether trying again later might help."""
        if status := self.answered:
            passing = status in TRANSIENT_STATUSES and not self.callback_error
        else:
            passing = self.error is not None and meaning_of(self.error).may_pass
        return TRANSIENT if passing else PERMANENT
