"""Where redirects lead."""

from __future__ import annotations

import pytest
from scrapy import Request
from scrapy.http import Response

from crawlproj.discover import redirects
from crawlproj.errors import RedirectLoop, RedirectNowhere
from crawlproj.frontier.meta_keys import PASSED
from crawlproj.urls import normalise


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (200, {"Location": "/b"}, False),
        (300, {}, False),
        (300, {"Location": "/b"}, True),
        (301, {}, True),
        (304, {"Location": "/b"}, False),
        (308, {"Location": "/b"}, True),
    ],
)
def test_what_leads_elsewhere_says_so_by_its_status(
    status: int, headers: dict[str, str], expected: bool
) -> None:
    assert redirects.is_one(Response("http://a/", status, headers)) is expected


def test_the_way_so_far_ends_with_the_response_itself() -> None:
    request = Request("http://a/2", meta={PASSED: ["http://a/1"]})
    assert redirects.passed_by(Response("http://a/2", request=request)) == [
        "http://a/1",
        "http://a/2",
    ]


def test_a_target_is_relative_to_the_last_url() -> None:
    passed = ["http://a/x/1", "http://b/y/2"]
    assert str(redirects.target(b"3", passed, normalise)) == "http://b/y/3"


@pytest.mark.parametrize(
    ("header", "passed", "error"),
    [
        (None, ["http://a/"], RedirectNowhere),
        (b"", ["http://a/"], RedirectNowhere),
        (b"mailto:x@a", ["http://a/"], RedirectNowhere),
        (b"/1", ["http://a/1", "http://a/2"], RedirectLoop),
        (b"/", [f"http://a/{number}" for number in range(redirects.MOST + 1)], RedirectLoop),
    ],
)
def test_a_redirect_that_leads_nowhere_in_a_circle_or_too_far_is_an_error(
    header: bytes | None, passed: list[str], error: type[Exception]
) -> None:
    assert error in redirects.BAD
    with pytest.raises(error):
        redirects.target(header, passed, normalise)
