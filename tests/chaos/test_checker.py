"""The checker finds each broken promise: one that finds nothing would prove nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from crawlproj.demo.web import Expected
from crawlproj.operate.request_log import Logged
from tests.chaos.checker import Attempt, Evidence, Sample, judge_end, judge_sample

SITE = "http://h:1"
A, B, GONE, SECRET = (SITE + path for path in ("/a", "/b", "/gone", "/private"))
MOST = 4


def asked(url: str, second: float) -> Logged:
    return Logged(second, second + 0.5, "h:1", "GET", url.removeprefix(SITE), 200, 1, "agent")


LOG = [asked(f"{SITE}/robots.txt", 0), asked(A, 2), asked(B, 4), asked(GONE, 6)]
STATUS: dict[str, Any] = {
    "state": "finished",
    "queued": 0,
    "delayed": 0,
    "leased": 0,
    "done": 2,
    "dead": 1,
    "balance": 0,
    "filtered": {"robots": 1, "robots_txt": 1},
    "reasons": {"http_404": 1},
    "reclaimed": 0,
}
SOUND = Evidence(
    crawl="site",
    expected=Expected(pages={A, B}, missing={GONE}, disallowed={SECRET}),
    seeds=[A],
    log=LOG,
    pages=[A, B],
    failures=[GONE],
    status=STATUS,
    redis_keys=["{site:0}:meta", "site:start_urls"],
    delay_s=1.0,
    max_attempts=MOST,
)
NOW = Sample(
    "e",
    "running",
    {"discovered": 5, "queued": 1, "leased": 1, "done": 2, "filtered:robots": 1},
    (Attempt("w", A, 0),),
)


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert list(judge_end(SOUND)) == []
    assert list(judge_sample(NOW, NOW, MOST)) == []


@pytest.mark.parametrize(
    ("invariant", "changed"),
    [
        (1, {"status": {**STATUS, "balance": 1}}),
        (1, {"status": {**STATUS, "done": 1}}),
        (1, {"log": LOG[:-1]}),
        (2, {"seeds": [A, SITE + "/seed"]}),
        (5, {"log": [*LOG, asked(A, 7.4)]}),
        (6, {"log": [*LOG, asked(SECRET, 9)]}),
        (7, {"pages": [A]}),
        (7, {"pages": [A, B, SITE + "/made-up"]}),
        (7, {"pages": [A, A, B]}),
        (7, {"failures": []}),
        (8, {"status": {**STATUS, "queued": 1}}),
        (8, {"status": {**STATUS, "state": "stopped"}}),
        (9, {"log": [*LOG, *(asked(A, 9 + 2 * n) for n in range(MOST))]}),
        (10, {"redis_keys": ["site.queue"]}),
    ],
)
def test_a_crawl_that_broke_a_promise_is_found_out(invariant: int, changed: dict[str, Any]) -> None:
    assert {one.invariant for one in judge_end(replace(SOUND, **changed))} == {invariant}


def test_a_second_row_is_owed_to_a_reclaim() -> None:
    status = {**STATUS, "reclaimed": 1}
    assert list(judge_end(replace(SOUND, pages=[A, A, B], status=status))) == []


@pytest.mark.parametrize(
    ("invariant", "changed"),
    [
        (1, {"counts": {**NOW.counts, "discovered": 6}}),
        (1, {"leases": ()}),
        (
            3,
            {
                "leases": (Attempt("w", A, 0), Attempt("v", A, 1)),
                "counts": {**NOW.counts, "queued": 0, "leased": 2},
            },
        ),
        (3, {"counts": {**NOW.counts, "done": 1, "queued": 2}}),
        (8, {"state": "finished"}),
        (9, {"leases": (Attempt("w", A, MOST),)}),
    ],
)
def test_an_instant_that_broke_a_promise_is_found_out(
    invariant: int, changed: dict[str, Any]
) -> None:
    found = judge_sample(replace(NOW, **changed), NOW, MOST)
    assert {one.invariant for one in found} == {invariant}


def test_the_evidence_is_short() -> None:
    many = {f"{SITE}/{number}" for number in range(9)}
    found = judge_end(replace(SOUND, expected=Expected(pages=many)))
    assert any(str(one).endswith("http://h:1/2 and 6 more") for one in found)
