"""What is kept of a visit, and requests that ask whether a page has changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request

from crawlproj.config.budgets import per_second
from crawlproj.discover.conditional import ask_if_changed, date_of, seconds_of
from crawlproj.frontier.meta_keys import VISIT
from crawlproj.frontier.records import decode, encode_link, encode_visited, last_visit
from crawlproj.frontier.visits import MOST_ETAG_BYTES, History, Visit, unpack_visit
from crawlproj.spider import SiteSpider

numbers = st.floats(0, 1e9, width=32)
visits = st.builds(
    Visit,
    st.integers(0, 2**32 * 1000 - 1),
    st.builds(History, numbers, numbers, numbers),
    st.binary(min_size=8, max_size=8),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=MOST_ETAG_BYTES),
    st.integers(0, 1000),
)


@given(visit=visits, priority=st.integers(-1000, 1000))
def test_a_visit_comes_back_from_an_entry_as_it_went_in(visit: Visit, priority: int) -> None:
    entry = encode_visited(b"\5" + encode_link("/a", 3, "http://h/")[1:], priority, visit.pack())
    assert entry[0] == 0, "no attempt of the next visit has been made"
    request = decode("http://h", 0, entry, SiteSpider())
    assert (request.url, request.priority, request.meta["depth"]) == ("http://h/a", priority, 3)
    assert request.meta[VISIT] == last_visit(entry) == (priority, visit.pack())
    assert unpack_visit(visit.pack()) == visit


@given(text=st.one_of(st.text(), st.binary().map(lambda raw: raw.decode("latin-1"))))
def test_what_is_no_visit_is_recognised(text: str) -> None:
    found = unpack_visit(text)
    assert found is None or isinstance(found, Visit)


def test_an_entry_without_a_visit_has_none() -> None:
    assert last_visit(encode_link("/", 0)) is None
    assert last_visit(b"\0\1nonsense") is None


def test_too_long_an_etag_is_not_kept() -> None:
    visit = unpack_visit(Visit(1, History(), etag=b"x" * (MOST_ETAG_BYTES + 1)).pack())
    assert visit is not None and visit.etag == b""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Tue, 17 Nov 2026 10:00:00 GMT", 1_794_909_600),
        ("Tuesday, 17-Nov-26 10:00:00 GMT", 1_794_909_600),
        ("", 0),
        ("0", 0),
        ("Tue, 99 Nov 2026 10:00:00 GMT", 0),
        ("Thu, 01 Jan 1950 00:00:00 GMT", 0),
        ("Thu, 01 Jan 9999 00:00:00 GMT", 0),
    ],
)
def test_dates_of_http_are_read(text: str, seconds: int) -> None:
    assert seconds_of(text) == seconds
    if seconds:
        assert date_of(seconds) == b"Tue, 17 Nov 2026 10:00:00 GMT"


def test_a_page_is_asked_for_by_the_validators_that_it_has() -> None:
    request = Request("http://h/")
    ask_if_changed(request, b'"1"', b"", [301])
    assert request.headers.to_unicode_dict() == {"If-None-Match": '"1"'}
    assert request.meta == {"handle_httpstatus_list": [301, 304]}


@pytest.mark.parametrize(
    ("budget", "rate"),
    [("5/s", 5), ("0.5/s", 0.5), ("120/min", 2), ("7200/h", 2), ("86400/day", 1)],
)
def test_a_budget_is_so_many_fetches_a_second(budget: str, rate: float) -> None:
    assert per_second(budget) == rate
