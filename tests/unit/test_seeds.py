"""Seeds as users write them."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from scrapy import Request

from crawlproj.discover.seeds import parse_seed, read_seeds


@pytest.mark.parametrize("data", [b"http://a/x", b"  http://a/x\r\n", b'{"url": "http://a/x"}'])
def test_a_seed_is_a_plain_url_or_json(data: bytes) -> None:
    assert parse_seed(data).url == "http://a/x"


def test_json_can_say_what_a_request_can() -> None:
    fields = {
        "url": "http://a/x",
        "priority": 5,
        "meta": {"k": [1]},
        "method": "POST",
        "body": "b",
        "headers": {"X": "1"},
        "cookies": {"c": "1"},
    }
    request = parse_seed(json.dumps(fields).encode())
    assert (request.priority, request.meta, request.method) == (5, {"k": [1]}, "POST")
    assert (request.body, request.headers["X"], request.cookies) == (b"b", b"1", {"c": "1"})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "URL has no scheme"),
        (b"no scheme", "URL has no scheme"),
        (b"\xff", "utf-8"),
        (b"{", "Expecting property name"),
        (b"{}", 'the JSON has no "url"'),
        (b'{"url": 5}', '"url" must be text'),
        (b'{"url": "http://a/", "urls": 1}', "unknown field 'urls'"),
        (b'{"url": "http://a/", "callback": "x"}', "unknown field 'callback'"),
        (b'{"url": "http://a/", "priority": "high"}', '"priority" must be a whole number'),
        (b'{"url": "http://a/", "priority": 1.5}', '"priority" must be a whole number'),
        (b'{"url": "http://a/", "meta": []}', '"meta" must be an object'),
    ],
)
def test_a_seed_that_cannot_be_used_is_refused_with_its_reason(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_seed(data)


@given(st.binary() | st.text().map(str.encode) | st.from_regex(r"\{.*\}").map(str.encode))
def test_any_bytes_are_a_request_or_refused(data: bytes) -> None:
    with suppress(ValueError, TypeError):
        assert isinstance(parse_seed(data), Request)


values: Any = (
    st.none()
    | st.integers()
    | st.text()
    | st.lists(st.text())
    | st.dictionaries(st.text(), st.text())
)


@given(
    st.dictionaries(
        st.sampled_from(["priority", "meta", "method", "body", "headers", "cookies"]), values
    )
)
def test_any_json_is_a_request_or_refused(fields: dict[str, Any]) -> None:
    with suppress(ValueError, TypeError):
        assert isinstance(parse_seed(json.dumps({"url": "http://a/", **fields}).encode()), Request)


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("", []),
        ("http://a", ["http://a"]),
        ("http://a, http://b ,", ["http://a", "http://b"]),
        ("http://a,#http://b", ["http://a"]),
        ("http://a/x,y?z=1,2,HTTPS://b/,,", ["http://a/x,y?z=1,2", "HTTPS://b/"]),
    ],
)
def test_seeds_are_separated_by_commas(text: str, seeds: list[str]) -> None:
    assert read_seeds(text) == seeds


def test_seeds_can_be_the_lines_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_text("http://a/?x=1,2\n\n# a comment\n  http://b/ü \r\n", encoding="utf-8")
    assert read_seeds(f"@{file}") == ["http://a/?x=1,2", "http://b/ü"]


def test_a_seed_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_seeds(f"@{tmp_path / 'none'}")
