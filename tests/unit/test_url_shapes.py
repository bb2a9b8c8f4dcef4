"""What the look of a URL tells, by tables."""

from __future__ import annotations

import pytest

from crawlproj.discover.url_shapes import (
    any_query,
    is_document,
    is_media,
    looks_like_trap,
    pattern_of,
)
from crawlproj.urls import normalise


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/", None),
        ("/a/b/c/d/e/f?x=1&y=2", None),
        ("/2024/01/01/01", None),
        ("/a/a/a", None),
        ("/a/a/a/a", "trap-repeat"),
        ("/a/b/a/b/a/b/a/b", "trap-repeat"),
        ("/x/css/y/css/z/css/w/css/", "trap-repeat"),
        ("/" + "/".join(map(str, range(20))), None),
        ("/" + "/".join(map(str, range(21))), "trap-depth"),
        ("/?" + "&".join(f"p{i}=1" for i in range(20)), None),
        ("/?" + "&".join(f"p{i}=1" for i in range(21)), "trap-params"),
    ],
)
def test_paths_without_end_are_recognised(path: str, reason: str | None) -> None:
    assert looks_like_trap(path) == reason


def test_the_limits_of_a_trap_can_be_set() -> None:
    assert looks_like_trap("/a/b", max_depth=1) == "trap-depth"
    assert looks_like_trap("/a/a", max_repeats=1) == "trap-repeat"
    assert looks_like_trap("/?a&b", max_params=1) == "trap-params"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a.jpg", True),
        ("/a.JPEG?v=1", True),
        ("/a/b.tar.gz", True),
        ("/paper.pdf", False),
        ("/site.css", False),
        ("/f.woff2", True),
        ("/", False),
        ("/a", False),
        ("/a.html", False),
        ("/a.php?file=b.jpg", False),
        ("/v1.mp3/", False),
        ("/a.jpgx", False),
    ],
)
def test_media_are_known_by_their_extension(path: str, expected: bool) -> None:
    assert is_media(path) is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/paper.pdf", True),
        ("/site.CSS?v=1", True),
        ("/app.mjs", True),
        ("/a.jpg", False),
        ("/pdf", False),
        ("/a.php?file=b.pdf", False),
    ],
)
def test_documents_are_known_by_their_extension(path: str, expected: bool) -> None:
    assert is_document(path) is expected


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("/", "/"),
        ("/about", "/about"),
        ("/a/17", "/a/#"),
        ("/calendar/2025-03", "/calendar/#-#"),
        ("/calendar/2025/03?view=day&user=7", "/calendar/#/#?user&view"),
        ("/c?b=1&a=2&b=3", "/c?a&b"),
        ("/c?", "/c?"),
        ("/v2/page10b", "/v#/page#b"),
        ("/deadbeef/facade", "/deadbeef/facade"),
        ("/commit/1f2e3d4c", "/commit/#"),
        ("/u/0f8fad5b-d9cb-469f-a165-70867728950e", "/u/#"),
        ("/s/Zx81kq0PvB3mW9tY/x", "/s/#/x"),
        ("/?p1=1&p2=2", "/?p#"),
        ("/" + "x" * 300, "/" + "x" * 199),
    ],
)
def test_urls_that_differ_in_numbers_and_ids_have_one_pattern(path: str, pattern: str) -> None:
    assert pattern_of(path) == pattern


def test_all_queries_of_a_path_have_one_pattern() -> None:
    assert any_query("/shop/list?a=1&b=2") == "/shop/list?*" == any_query("/shop/list?c")


# FAULTS: session ids and tracking parameters are canonicalised, so they never make a pattern.
def test_session_ids_and_tracking_leave_no_trace() -> None:
    spellings = [
        "http://h/a?utm_source=x&b=1",
        "http://h/a;jsessionid=0123456789abcdef?b=1",
        "http://h/a?b=1&PHPSESSID=abc&gclid=1",
        "http://h/a?sid=9b1deb4d3b7d4bad9bdd2b0d7b3dcb6d&b=1",
    ]
    assert {str(normalise(url)) for url in spellings} == {"http://h/a?b=1"}
