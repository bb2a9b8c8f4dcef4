"""How long a host is left alone, whatever its answers say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlproj.errors import ConfigError
from crawlproj.frontier.pacing import (
    Override,
    Overrides,
    backoff_ms,
    hold_ms,
    pause_ms,
    retry_after_ms,
)

NOW = datetime(1994, 11, 6, 8, 49, 0, tzinfo=UTC)
HOUR_MS = 3_600_000
NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("configured_ms", "crawl_delay_s", "elapsed_ms", "expected_ms"),
    [
        (250, None, 0, 250),
        (250, None, 100, 250),
        (250, None, 1000, 2000),
        (250, 1.5, 100, 1500),
        (250, 0.1, 100, 250),
        (250, 1.5, 5000, 10_000),
        (0, None, 0, 0),
        (0, 0.0001, 0, 1),
        (0, None, 0.3, 1),
        (250, 1e9, 0, 30_000),
        (250, -1, 0, 250),
        (250, NAN, 0, 250),
        (250, INF, 0, 30_000),
        (250, -INF, 0, 250),
        (250, 1e308, 0, 30_000),
        (250, None, NAN, 250),
        (250, None, INF, 30_000),
        (250, None, -5, 250),
        (60_000, 1e9, 1e9, 60_000),
    ],
)
def test_a_pause_is_the_largest_of_what_is_configured_asked_for_and_needed(
    configured_ms: int, crawl_delay_s: float | None, elapsed_ms: float, expected_ms: int
) -> None:
    found = pause_ms(configured_ms, crawl_delay_s, elapsed_ms, factor=2, most_ms=30_000)
    assert found == expected_ms


@given(
    st.integers(0, 100_000),
    st.none() | st.floats(),
    st.floats(),
    st.floats(),
    st.integers(0, 10**6),
)
def test_a_pause_is_never_less_than_configured_and_never_more_than_the_most(
    configured_ms: int,
    crawl_delay_s: float | None,
    elapsed_ms: float,
    factor: float,
    most_ms: int,
) -> None:
    found = pause_ms(configured_ms, crawl_delay_s, elapsed_ms, factor=factor, most_ms=most_ms)
    assert configured_ms <= found <= max(configured_ms, most_ms)


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_slower_server_never_rests_less(one_ms: float, other_ms: float) -> None:
    quick, slow = (
        pause_ms(100, None, elapsed_ms, factor=1.5, most_ms=HOUR_MS)
        for elapsed_ms in sorted((one_ms, other_ms))
    )
    assert quick <= slow


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        (None, None),
        ("", None),
        ("0", 0),
        ("7", 7000),
        (b"120", 120_000),
        (" 5 ", 5000),
        ("1.5", 1500),
        ("1e12", HOUR_MS),
        ("9" * 90, HOUR_MS),
        ("9" * 5000, None),
        ("1e-400", 0),
        ("-5", None),
        ("-0", None),
        ("nan", None),
        ("inf", None),
        ("1_000", None),
        ("٣", None),
        ("soon", None),
        ("5 minutes", None),
        (b"\xff\x00", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 37_000),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 37_000),
        ("Sun Nov  6 08:49:37 1994", 37_000),
        ("Sun, 06 Nov 1994 09:49:37 +0100", 37_000),
        ("Sun, 06 Nov 1994 08:48:59 GMT", 0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", HOUR_MS),
        ("Fri, 31 Dec 9999 23:59:59 -2300", None),
        ("Sun, 99 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 99999999 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37 +9999", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(
    value: str | bytes | None, expected_ms: int | None
) -> None:
    assert retry_after_ms(value, NOW, most_ms=HOUR_MS) == expected_ms


def test_a_clock_in_any_zone_gives_the_same_wait() -> None:
    date = "Sun, 06 Nov 1994 08:49:37 GMT"
    for now in (NOW, NOW.astimezone(timezone(timedelta(hours=9))), NOW.replace(tzinfo=None)):
        assert retry_after_ms(date, now, most_ms=HOUR_MS) == 37_000


@given(st.text(max_size=60) | st.binary(max_size=60))
def test_no_retry_after_raises_or_leaves_its_range(value: str | bytes) -> None:
    wait_ms = retry_after_ms(value, NOW, most_ms=1000)
    assert wait_ms is None or 0 <= wait_ms <= 1000


@given(st.integers(0, 3600))
def test_a_date_and_its_distance_in_seconds_are_the_same(seconds: int) -> None:
    date = format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)
    found = [retry_after_ms(value, NOW, most_ms=HOUR_MS) for value in (date, str(seconds))]
    assert found == [seconds * 1000] * 2


@pytest.mark.parametrize(
    ("failures", "jitter", "expected_ms"),
    [
        (-1, 0, 0),
        (0, 0, 0),
        (1, 0, 1000),
        (2, 0, 2000),
        (3, 0, 4000),
        (6, 0, 32_000),
        (7, 0, 60_000),
        (8, 0, 60_000),
        (10**9, 0, 60_000),
        (3, 0.5, 3000),
        (3, 1, 2000),
        (10**9, 1, 30_000),
        (3, -7, 4000),
        (3, 7, 2000),
    ],
)
def test_the_back_off_doubles_up_to_the_most(
    failures: int, jitter: float, expected_ms: int
) -> None:
    assert backoff_ms(failures, base_ms=1000, most_ms=60_000, jitter=jitter) == expected_ms


@given(st.integers(1, 200), st.integers(1, 10**6), st.integers(1, 10**8), st.floats(0, 1))
def test_the_back_off_grows_and_keeps_at_least_half_of_itself(
    failures: int, base_ms: int, most_ms: int, jitter: float
) -> None:
    def wait_ms(failures: int, jitter: float) -> int:
        return backoff_ms(failures, base_ms=base_ms, most_ms=most_ms, jitter=jitter)

    whole_ms = wait_ms(failures, 0)
    assert whole_ms <= most_ms
    assert whole_ms / 2 <= wait_ms(failures, jitter) <= whole_ms
    assert wait_ms(failures, jitter) <= wait_ms(failures + 1, jitter)
    assert wait_ms(200, 0) == most_ms


@pytest.mark.parametrize(
    ("status", "asked_ms", "failures", "expected_ms"),
    [
        # an overloaded server: what it asks for, else the back-off from the first time
        (429, 5000, 1, 5000),
        (503, 200, 1, 200),
        (429, None, 1, 1000),
        (503, 0, 1, 1000),
        (429, None, 3, 4000),
        (429, 200, 3, 4000),
        (429, 9000, 3, 9000),
        (429, 10**9, 1, 60_000),
        (503, None, 0, 1000),
        # other failures: nothing for the first
        (500, None, 1, 0),
        (0, None, 1, 0),
        (502, 5000, 1, 0),
        (500, None, 2, 1000),
        (0, None, 3, 2000),
        (0, None, 99, 60_000),
        # no failure
        (200, None, 0, 0),
        (404, None, 0, 0),
        (200, 5000, 0, 0),
    ],
)
def test_an_overloaded_host_is_held_at_once_and_a_failing_one_from_the_second_failure(
    status: int, asked_ms: int | None, failures: int, expected_ms: int
) -> None:
    assert hold_ms(status, asked_ms, failures, base_ms=1000, most_ms=60_000) == expected_ms


@given(
    st.integers(0, 999), st.none() | st.integers(0, 10**12), st.integers(0, 10**6), st.floats(0, 1)
)
def test_no_host_is_held_longer_than_the_most(
    status: int, asked_ms: int | None, failures: int, jitter: float
) -> None:
    held_ms = hold_ms(status, asked_ms, failures, base_ms=500, most_ms=9000, jitter=jitter)
    assert 0 <= held_ms <= 9000


TABLE: Mapping[str, Mapping[str, float]] = {
    "*": {"delay": 1},
    "*.gov": {"delay": 10},
    "*.data.gov": {"delay": 5},
    "data.gov": {"obey_robots": False},
    "Example.com.": {"delay": 2.5},
    "example.com:8080": {"delay": 0},
    "example.com:443": {"obey_robots": True},
    "bücher.example": {"delay": 4},
    "127.0.0.1": {"delay": 0},
    "[::1]:81": {"delay": 3},
}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("http://other.org", Override(1.0)),
        ("http://gov", Override(1.0)),
        ("https://nasa.gov", Override(10.0)),
        ("https://www.nasa.gov:8443", Override(10.0)),
        ("http://data.gov", Override(10.0, False)),
        ("http://www.data.gov", Override(5.0)),
        ("http://example.com", Override(2.5)),
        ("http://www.example.com", Override(1.0)),
        ("http://notexample.com", Override(1.0)),
        ("http://example.com:8080", Override(0.0)),
        ("https://example.com", Override(2.5, True)),
        ("http://example.com:443", Override(2.5, True)),
        ("http://xn--bcher-kva.example", Override(4.0)),
        ("http://127.0.0.1:5000", Override(0.0)),
        ("http://[::1]:81", Override(3.0)),
        ("http://[::1]", Override(1.0)),
    ],
)
def test_the_most_specific_entry_gives_each_value(host: str, expected: Override) -> None:
    assert Overrides(TABLE).for_host(host) == expected


def test_without_overrides_the_settings_of_the_crawl_hold() -> None:
    assert Overrides({}).for_host("http://example.com") == Override()
    assert Overrides({"*.gov": {}}).for_host("http://example.com") == Override()


def test_a_host_with_a_delay_of_its_own_has_one_connection_unless_a_number_is_given() -> None:
    table = {"a.com": {"delay": 2}, "b.com": {"delay": 2, "per_host": 3}, "c.com": {"delay": 0}}
    implied = Overrides(table, one_connection=True).changed({"d.com": {"delay": 1}})
    numbers = [implied.for_host(f"http://{name}.com").per_host for name in "abcde"]
    assert numbers == [1, 3, None, 1, None]
    assert Overrides(table).for_host("http://a.com").per_host is None
    widely = Overrides({"*": {"per_host": 4}, "a.com": {"delay": 2}}, one_connection=True)
    assert widely.for_host("http://a.com").per_host == 4


@given(st.text(max_size=40))
def test_no_host_raises(host: str) -> None:
    assert Overrides(TABLE).for_host(host).delay_s is not None


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("example.com", '\'example.com\' is not a table; give {"example.com": {"delay": 2}}'),
        ({"https://a.com": {}}, "'https://a.com' is no host; give a name such as example.com"),
        ({"a.com/x": {}}, "'a.com/x' is no host"),
        ({"": {}}, "'' is no host"),
        ({7: {}}, "7 is no host"),
        ({"a b": {}}, "'a b' is no host"),
        ({"a.*.com": {}}, "'a.*.com' is no host (host)"),
        ({"1.2.3.999": {}}, "'1.2.3.999' is no host (host)"),
        ({"*.a.com:80": {}}, "'*.a.com:80' is no host"),
        ({"a.com": {}, "A.com": {}}, "a.com is there twice; give each host once"),
        ({"a.com": 2}, 'a.com has 2; give a table such as {"delay": 2}'),
        ({"a.com": {"dely": 2}}, "a.com has unknown 'dely'; known are delay, obey"),
        ({"a.com": {"delay": -1}}, "a.com has delay -1; give seconds, 0 to 86400"),
        ({"a.com": {"delay": NAN}}, "a.com has delay nan; give seconds"),
        ({"a.com": {"delay": "2"}}, "a.com has delay '2'; give seconds"),
        ({"a.com": {"delay": True}}, "a.com has delay True; give seconds"),
        ({"a.com": {"delay": 1e9}}, "a.com has delay 1000000000.0; give seconds"),
        ({"a.com": {"obey_robots": 1}}, "a.com has obey_robots 1; give True or False"),
    ],
)
def test_a_bad_table_is_refused_in_one_line(table: Any, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Overrides(table)
    assert str(refused.value).startswith(f"POLITENESS_OVERRIDES: {message}")
    assert "\n" not in str(refused.value)
