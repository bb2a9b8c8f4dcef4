"""Records and seeds: what was stored comes back, what is foreign is refused, nothing else happens;
and what servers say about when to come back is bounded."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import msgpack
from hypothesis import assume
from hypothesis import strategies as st
from scrapy import Request, Spider

from crawlproj.discover.seeds import parse_seed
from crawlproj.errors import CrawlError
from crawlproj.frontier import pacing
from crawlproj.frontier.meta_keys import FROM_ENVIRONMENT, LEASE, RETRY_TIMES, SENT_LOGIN
from crawlproj.frontier.records import (
    FORMAT,
    RecordError,
    decode,
    encode_request,
    key_of_url,
    summarise,
)
from crawlproj.urls import UrlError
from tests.fuzz.harness import fuzzed

MAX_BYTES = 2_000
HOST = "http://example.com"


class Pages(Spider):
    name = "pages"

    def parse(self, response: Any) -> None: ...


SPIDER = Pages()
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | TEXT | st.binary(max_size=20)
VALUES = st.recursive(
    PLAIN | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)
KEPT_APART = ("depth", "referer", "redirects", LEASE, SENT_LOGIN, FROM_ENVIRONMENT, RETRY_TIMES)
META = st.dictionaries(TEXT.filter(lambda name: name not in KEPT_APART), VALUES)
PATHS = st.text("abc/?=&%20", max_size=30).map("/".__add__)


@fuzzed(PATHS, META, META, st.binary(max_size=50), st.integers(0, 99), examples=300)
def test_a_request_comes_back_as_it_was_stored_or_is_refused(
    path: str, meta: dict[str, Any], cb_kwargs: dict[str, Any], body: bytes, depth: int
) -> None:
    request = Request(HOST + path, meta={**meta, "depth": depth}, cb_kwargs=cb_kwargs, body=body)
    try:
        entry = encode_request(request, HOST, SPIDER, MAX_BYTES)
    except RecordError as error:
        assert "\n" not in str(error)
        return
    assert len(entry) <= MAX_BYTES
    again = decode(HOST, 3, entry, SPIDER)
    assert (again.url, again.body, again.priority) == (request.url, body, 3)
    assert (again.meta, again.cb_kwargs) == (request.meta, cb_kwargs)
    assert summarise(HOST, entry) == (request.url, depth, "", 0, False)
    assert encode_request(again, HOST, SPIDER, MAX_BYTES) == entry


ANYTHING = st.recursive(
    PLAIN | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(
            st.sampled_from(["meta", "callback", "url", "headers", "body", "method", "cookies"])
            | TEXT,
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
RECORDS = st.builds(
    lambda path_or_url, depth, referer, rest: [path_or_url, depth, referer, rest],
    PATHS | TEXT | ANYTHING,
    st.integers(0, 9) | ANYTHING,
    TEXT | ANYTHING,
    st.dictionaries(
        st.sampled_from(["meta", "callback", "errback", "headers", "body", "method", "encoding"])
        | TEXT,
        ANYTHING,
        max_size=3,
    ),
)
ENTRIES = st.binary(max_size=80) | RECORDS.map(
    lambda record: bytes((0, FORMAT)) + msgpack.packb(record)
)


@fuzzed(ENTRIES, examples=500)
def test_a_foreign_record_is_refused_or_a_request_to_its_own_host(entry: bytes) -> None:
    assert summarise(HOST, entry).attempts == (entry[0] if entry else 0)
    try:
        request = decode(HOST, 0, entry, SPIDER)
    except RecordError as error:
        assert "\n" not in str(error)
        return
    assert key_of_url(request.url).host == HOST
    assert request.callback in (None, SPIDER.parse) or callable(request.callback)


@fuzzed(ENTRIES, st.integers(0, 80), st.integers(0, 255), examples=300)
def test_a_record_with_one_wrong_byte_harms_nobody(entry: bytes, place: int, byte: int) -> None:
    damaged = bytearray(entry)
    damaged[place : place + 1] = bytes((byte,))
    with suppress(RecordError):
        decode(HOST, 0, bytes(damaged), SPIDER)
    summarise(HOST, bytes(damaged))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
SEEDS = st.binary(max_size=60) | st.dictionaries(
    st.sampled_from(["url", "priority", "meta", "method", "body", "headers", "cookies"])
    | st.text(max_size=5),
    JSON | st.sampled_from(["http://example.com/", "http://[", "ftp://x/"]),
    max_size=5,
).map(lambda fields: json.dumps(fields).encode())


@fuzzed(SEEDS, examples=500)
def test_a_seed_is_taken_in_or_refused_with_a_sentence(data: bytes) -> None:
    try:
        request = parse_seed(data)
        host = key_of_url(request.url).host
        entry = encode_request(request, host, SPIDER, MAX_BYTES)
    except (ValueError, TypeError, UrlError, CrawlError) as error:
        assert str(error)
        return
    assert decode(host, 0, entry, SPIDER).url == request.url


NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MOST_MS = 600_000
# fmt: off
WAITS = st.sampled_from([
    "1e12", "-5", "0", "1", "1.5", "inf", "nan", "1e309", "0x10", "٣", "120 ", "9" * 99,
    "Fri, 02 Jan 2026 03:05:05 GMT", "Friday, 02-Jan-26 03:05:05 GMT", "Fri Jan  2 03:05:05 2026",
    "Fri, 31 Dec 9999 23:59:59 -2359", "Mon, 01 Jan 0001 00:00:00 +2359", "32 Foo 2026", "",
])
# fmt: on


@fuzzed(WAITS | st.text(max_size=120) | st.binary(max_size=120), examples=400)
def test_no_retry_after_holds_a_host_for_longer_than_allowed(value: str | bytes) -> None:
    wait_ms = pacing.retry_after_ms(value, NOW, most_ms=MOST_MS)
    assert wait_ms is None or 0 <= wait_ms <= MOST_MS
    for failures in (0, 1, 50):
        held_ms = pacing.hold_ms(503, wait_ms, failures, base_ms=1000, most_ms=MOST_MS, jitter=0.5)
        assert 0 < held_ms <= MOST_MS


@fuzzed(st.integers(-(10**6), 10**6), st.booleans(), examples=200)
def test_a_date_and_the_seconds_until_it_are_the_same_wait(seconds: int, as_bytes: bool) -> None:
    date = format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)
    value = date.encode() if as_bytes else date
    found = pacing.retry_after_ms(value, NOW, most_ms=MOST_MS)
    assert found == min(max(seconds, 0) * 1000, MOST_MS)
    if seconds >= 0:
        assert pacing.retry_after_ms(str(seconds), NOW, most_ms=MOST_MS) == found


@fuzzed(
    st.integers(0, 10**6), st.none() | st.floats(), st.floats(), st.floats(0, 100), examples=400
)
def test_a_pause_is_what_was_configured_or_more_within_bounds(
    configured_ms: int, delay_s: float | None, elapsed_ms: float, factor: float
) -> None:
    assume(not math.isnan(factor))
    most_ms = 60_000
    found = pacing.pause_ms(configured_ms, delay_s, elapsed_ms, factor=factor, most_ms=most_ms)
    assert configured_ms <= found <= max(configured_ms, most_ms)
    if delay_s is not None and 0 <= delay_s * 1000 <= most_ms:
        assert found >= delay_s * 1000
