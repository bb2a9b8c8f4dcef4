"""What becomes of a lease: what was decided on the way, or else what was observed."""

from __future__ import annotations

import pytest
from scrapy.exceptions import DownloadTimeoutError, IgnoreRequest

from crawlproj.errors import AddressRefused, BadRequest, NoLongerOurs, RedirectLoop
from crawlproj.frontier.failures import Health, meaning_of
from crawlproj.frontier.messages import Lease, Settlement
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
from crawlproj.worker.outcome import CLOCK_MS, RetryPolicy, outcome_of

MOST = 3
PATIENCE = RetryPolicy(pause_ms=50, retry_delay=RetryDelay(1000, 5000), max_attempts=MOST)


def attempt(tried: int = 0, decided: Outcome | None = None, **observed: object) -> Attempt:
    """A lease that was tried so often before, with what was observed this time."""
    entry = bytes([tried]) + b"\1/page"
    return Attempt(Lease(0, 7, "http://a", 0, entry), decided=decided, **observed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ended", "becomes"),
    [
        (attempt(status=200, is_delivered=True), Done()),
        (attempt(status=404, is_delivered=True), Done()),
        (attempt(status=404), Failed("http_404")),
        (attempt(server_status=503), Failed("http_503")),
        (attempt(status=304), Failed("http_304")),
        (attempt(status=304, is_delivered=True), Done()),
        (attempt(status=199), Failed("http_199")),
        (attempt(status=600), Failed("http_600")),
        (
            attempt(status=200, is_delivered=True, callback_error="KeyError"),
            Failed("callback_KeyError"),
        ),
        (attempt(error=DownloadTimeoutError()), Failed("timeout")),
        (attempt(status=301, is_delivered=True, error=RedirectLoop()), Failed("redirect_loop")),
        (
            attempt(server_status=302, error=IgnoreRequest("max redirections reached")),
            Failed("redirect_loop"),
        ),
        (attempt(decided=Done(), status=302), Done()),
        (attempt(error=IgnoreRequest("Filtered offsite request")), Filtered("offsite")),
        (attempt(error=AddressRefused("a", {})), Filtered("address")),
        (attempt(error=BadRequest()), Failed("request")),
        (attempt(error=KeyError()), Failed("KeyError")),
        (attempt(), Filtered("ignored")),
    ],
)
def test_what_nobody_has_decided_is_told_by_what_was_observed(
    ended: Attempt, becomes: Outcome
) -> None:
    assert outcome_of(ended, MOST) == becomes


def test_a_request_that_cannot_be_made_says_nothing_of_its_host() -> None:
    meaning = meaning_of(BadRequest("a header holds a line break or a NUL"))
    assert (meaning.may_pass, meaning.health) == (False, Health.UNKNOWN)


def test_what_is_derived_from_a_known_error_means_the_same() -> None:
    class OfAMiddleware(DownloadTimeoutError): ...

    assert meaning_of(OfAMiddleware()) == meaning_of(DownloadTimeoutError())


@pytest.mark.parametrize(
    "decided",
    [Filtered("robots_txt"), SetAside("/*", "repeated"), Returned(), PutOff(), Retry(b"\0\1/")],
)
def test_a_decision_counts_whatever_is_observed(decided: Outcome) -> None:
    observed = attempt(decided=decided, status=500, callback_error="KeyError", error=NoLongerOurs())
    assert outcome_of(observed, MOST) == decided


def test_what_was_tried_too_often_fails_for_what_was_observed_last() -> None:
    assert outcome_of(attempt(MOST - 2, Retry(b"")), MOST) == Retry(b"")
    assert outcome_of(attempt(MOST - 1, Retry(b""), server_status=503), MOST) == Failed("http_503")
    assert outcome_of(attempt(MOST - 1, Retry(b"")), MOST) == Failed("attempts")
    another = Retry(b"", is_another=True)
    assert outcome_of(attempt(MOST - 1, another, status=405), MOST) == another


def test_what_was_tried_too_often_is_told_with_the_status_of_its_last_answer() -> None:
    given_up = attempt(MOST - 1, Retry(b""), server_status=503)
    assert (PATIENCE.settlement(given_up).status, given_up.answered) == (503, 503)
    assert PATIENCE.settlement(attempt(0, Retry(b""), server_status=503)).status == 0


def test_the_last_word_counts_but_what_was_put_off_stays_so() -> None:
    page = attempt()
    page.decide(Filtered("robots_txt"))
    page.decide(Retry(b"\0\1/"))
    assert page.decided == Retry(b"\0\1/")
    page.decide(PutOff())
    page.decide(Retry(b"\0\1/"))
    assert page.decided == PutOff()


@pytest.mark.parametrize(
    ("decided", "told"),
    [
        (Done(), Settlement(7, "done", status=200, size=9)),
        (Failed("size"), Settlement(7, "dead", reason="size", status=200, size=9)),
        (Retry(b"e"), Settlement(7, "retry", entry=b"e", delay_ms=2000, status=200, size=9)),
        (Retry(b"e", is_another=True), Settlement(7, "retry", entry=b"e")),
        (PutOff(400), Settlement(7, "wait", delay_ms=400, hold_ms=400, status=200, size=9)),
        (Returned(30, "g"), Settlement(7, "return", hold_ms=30 + CLOCK_MS, group="g")),
        (Filtered("noindex"), Settlement(7, "filtered", reason="noindex")),
        (SetAside("/*", "queries"), Settlement(7, "set_aside", reason="/*", entry=b"queries")),
    ],
)
def test_each_outcome_is_told_in_the_words_of_the_frontier(
    decided: Outcome, told: Settlement
) -> None:
    assert PATIENCE.settlement(attempt(1, decided, status=200, size=9)) == told


def test_the_wait_for_a_retry_doubles_up_to_the_longest() -> None:
    waits = [PATIENCE.settlement(attempt(tried, Retry(b"e"))).delay_ms for tried in range(2)]
    assert waits == [1000, 2000]
    patient = RetryPolicy(pause_ms=50, retry_delay=RetryDelay(2000, 600_000), max_attempts=255)
    assert patient.settlement(attempt(19, Retry(b"e"))).delay_ms == 600_000
    slow = RetryPolicy(pause_ms=50, retry_delay=RetryDelay(2000, 0), max_attempts=255)
    assert slow.settlement(attempt(19, Retry(b"e"))).delay_ms == 2000


def test_a_request_that_reached_its_host_tells_when_that_may_be_asked_again() -> None:
    ended = attempt(status=503, server_status=503, pause_ms=70, hold_ms=900, per_host=2)
    ended.health, ended.downloaded_at = Health.OVERLOADED, ended.started_at
    told = PATIENCE.settlement(ended)
    assert (told.failed, told.pause_ms, told.hold_ms) == (2, 70 + CLOCK_MS, 900 + CLOCK_MS)
    assert (told.hold_reason, told.per_host, type(told.failed)) == ("http_503", 2, int)
    ended.health = Health.UNKNOWN
    assert PATIENCE.settlement(ended).pause_ms == PATIENCE.pause_ms + CLOCK_MS
