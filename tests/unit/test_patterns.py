"""What counts as evidence against a URL pattern."""

from __future__ import annotations

import calendar

import pytest

from crawlproj.config.choices import ALIKE, OFF, SAME
from crawlproj.discover.patterns import Evidence
from crawlproj.urls import Url

HOST = "http://h"
MOST = 5


def evidence(mode: str = SAME, queries: int = 0) -> Evidence:
    return Evidence(mode, MOST, queries)


def weigh(found: Evidence, path: str, body: bytes, *, leads_on: bool = True) -> str | None:
    return found.weigh(Url(HOST, path), body, leads_on)


def month(number: int) -> bytes:
    """A page of an endless calendar."""
    year, index = 2000 + number // 12, number % 12 + 1
    sheet = calendar.HTMLCalendar().formatmonth(year, index)
    return f"{sheet}<a href=/cal/{year}/{index + 1}>next</a>".encode()


def test_the_same_page_again_and_again_that_leads_on_is_repeated() -> None:
    found = evidence()
    verdicts = [weigh(found, f"/s/{number}", b"<a href=next>x</a>") for number in range(MOST + 1)]
    assert verdicts == [None] * MOST + ["/s/#"]


def test_equal_pages_that_lead_nowhere_are_left_alone_unless_alike_is_asked_for() -> None:
    for mode, verdict in ((SAME, None), (ALIKE, "/s/#"), (OFF, None)):
        found = evidence(mode)
        verdicts = [weigh(found, f"/s/{n}", b"gone", leads_on=False) for n in range(MOST + 1)]
        assert verdicts[-1] == verdict


def test_pages_that_differ_in_numbers_are_repeated_only_if_alike_is_asked_for() -> None:
    for mode, verdict in ((SAME, None), (ALIKE, "/p/#")):
        found = evidence(mode)
        verdicts = [weigh(found, f"/p/{n}", b"<title>Page %d</title>" % n) for n in range(9)]
        assert verdicts[-1] == verdict


def test_an_endless_calendar_is_recognised_once_its_months_come_round() -> None:
    found = evidence(ALIKE)
    first = next(
        number
        for number in range(10_000)
        if weigh(found, f"/cal/{2000 + number // 12}/{number % 12 + 1}", month(number))
    )
    assert first < 12 * 60


def test_one_new_page_clears_a_pattern() -> None:
    found = evidence()
    for number in range(20):
        body = b"new %d" % number if number % MOST == 0 else b"old"
        assert weigh(found, f"/s/{number}", body) is None


def test_patterns_and_hosts_are_weighed_apart() -> None:
    found = evidence()
    for number in range(MOST):
        for path in ("/a/{}", "/b/{}", "/c?x={}"):
            assert weigh(found, path.format(number), b"x") is None
            assert found.weigh(Url("http://other", path.format(number)), b"x", True) is None


def test_pages_of_one_url_and_empty_pages_are_no_evidence() -> None:
    found = evidence(ALIKE)
    for number in range(20):
        assert weigh(found, "/about", b"x") is None
        assert weigh(found, f"/e/{number}", b"") is None


def test_a_path_with_too_many_query_strings_is_set_aside_as_a_whole() -> None:
    found = evidence(queries=3)
    assert [found.count_query(Url(HOST, f"/list?a={n}&b")) for n in range(3)] == [
        *[None, None],
        "/list?*",
    ]
    assert found.count_query(Url(HOST, "/list")) is None
    assert found.count_query(Url(HOST, "/other?a=1")) is None
    assert evidence(queries=0).count_query(Url(HOST, "/list?a=1")) is None


def test_what_a_worker_remembers_is_bounded() -> None:
    found = Evidence(ALIKE, MOST, 10)
    for number in range(25_000):
        path = f"/{'x' * (number % 50)}{chr(97 + number % 26)}/{number}?{number // 50:x}y"
        found.weigh(Url(f"http://h{number}", path), b"x" * (number % 300 + 1), True)
        found.count_query(Url(f"http://h{number}", path))
    assert found.remembered == (20_000, 20_000)


@pytest.mark.parametrize(("ago", "is_remembered"), [(128, True), (129, False)])
def test_so_many_contents_of_a_pattern_are_remembered(ago: int, is_remembered: bool) -> None:
    found = evidence()
    contents = [b"x" * (number + 1) for number in range(300)]
    for number, content in enumerate(contents):
        assert weigh(found, f"/many/{number}", content) is None
    for number in range(MOST - 1):
        assert weigh(found, f"/many/{number}", contents[-1]) is None
    assert (weigh(found, "/many/0", contents[-ago]) == "/many/#") is is_remembered


def test_copies_in_a_row_are_evidence_against_the_narrowest_form_that_they_share() -> None:
    for paths, form in (
        (["/print/{}"] * MOST, "/print/#"),
        (["/a?print=1", "/b?print=1", "/c?print=1", "/d?print=1", "/e?print=1"], "*?print"),
        (["/m/a", "/m/b", "/m/x/c", "/m/y/d", "/m/z/e"], "/m/*"),
    ):
        found = evidence()
        urls = [Url(HOST, path.format(number)) for number, path in enumerate(paths)]
        assert [found.weigh_near(url, is_copy=True) for url in urls] == [None] * (MOST - 1) + [form]


def test_a_page_that_is_no_copy_clears_its_forms_and_no_others() -> None:
    found = evidence()
    for number in range(MOST - 1):
        assert found.weigh_near(Url(HOST, f"/print/{number}"), is_copy=True) is None
    assert found.weigh_near(Url(HOST, "/other/1"), is_copy=False) is None
    assert found.weigh_near(Url(HOST, "/print/8"), is_copy=False) is None
    assert found.weigh_near(Url(HOST, "/print/9"), is_copy=True) is None


def test_wider_forms_begin_anew_when_a_narrower_one_is_set_aside() -> None:
    found = evidence()
    verdicts = [found.weigh_near(Url(HOST, f"/m/{n}"), is_copy=True) for n in range(2 * MOST)]
    assert set(verdicts) == {None, "/m/#"}


def test_nothing_is_held_against_copies_where_patterns_are_off() -> None:
    found = evidence(OFF)
    assert not any(found.weigh_near(Url(HOST, f"/m/{n}"), is_copy=True) for n in range(20))
