"""What pages and headers declare, however they write it."""

from __future__ import annotations

import pytest
from scrapy.http import Headers

from crawlproj.discover import declared

NONE = Headers()


@pytest.mark.parametrize(
    ("page", "href"),
    [
        (b'<head><link rel="canonical" href="/a?b=1&amp;c=2">', "/a?b=1&c=2"),
        (b"<HEAD><LINK HREF=/a REL=CANONICAL>", "/a"),
        (b"<link href='/a' rel='alternate canonical'/>", "/a"),
        (b'<meta name=canonical content=x><link rel=canonical href="/a">', "/a"),
        (b'<!-- <link rel="canonical" href="/old"> --><link rel=canonical href=/a>', "/a"),
        (b"<link rel=canonical>", ""),
        (b"<link rel=not-canonical href=/a>", ""),
        (b"<head></head><link rel=canonical href=/a>", ""),
        (b"<body><p><link rel=canonical href=/a>", ""),
        (b"<link rel=canonical href=/a", ""),
        (b"<title>canonical</title>", ""),
        (b" " * declared.HEAD_BYTES + b"<link rel=canonical href=/a>", ""),
        (b"<canonical " * 100 + b"<link rel=canonical href=/a>", ""),
    ],
)
def test_a_canonical_url_counts_in_the_head_alone(page: bytes, href: str) -> None:
    assert declared.canonical(page) == href


@pytest.mark.parametrize(
    ("page", "headers", "language"),
    [
        (b"<!doctype html><html lang=en>", {}, "en"),
        (b'<HTML class=x LANG="de-AT" dir=ltr>', {}, "de-AT"),
        (b'<html xml:lang="fr">', {}, "fr"),
        (b"<html lang=en>", {"Content-Language": "de"}, "en"),
        (b"<html>", {"Content-Language": " de-CH "}, "de-CH"),
        (b"<html>", {"Content-Language": "de, en"}, ""),
        (b"<html lang='{{ lang }}'>", {}, ""),
        (b"<html data-lang=en>", {}, ""),
        (b"<htmlx lang=en>", {}, ""),
        (b"", {}, ""),
    ],
)
def test_a_language_is_what_the_page_says_else_the_server(
    page: bytes, headers: dict[str, str], language: str
) -> None:
    assert declared.language(page, Headers(headers)) == language


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("Tue, 17 Nov 2026 23:49:02 GMT", "2026-11-17T23:49:02.000Z"),
        ("Tuesday, 17-Nov-26 23:49:02 GMT", "2026-11-17T23:49:02.000Z"),
        ("Tue, 17 Nov 2026 23:49:02 +0100", "2026-11-17T22:49:02.000Z"),
        ("Tue, 99 Foo 2026 23:49:02 GMT", ""),
        ("Tue, 99 Nov 2026 99:49:02 GMT", ""),
        ("0", ""),
        ("yesterday", ""),
    ],
)
def test_a_date_of_http_becomes_a_time_like_all_others(text: str, time: str) -> None:
    assert declared.http_time(text) == time


def test_what_a_server_says_of_versions_is_bounded_and_printable() -> None:
    assert declared.versions(Headers({"ETag": 'W/"abc"'})) == ('W/"abc"', "")
    assert declared.versions(Headers({"ETag": "x" * 257})).etag == ""
    assert declared.versions(Headers({"ETag": b"a\x1bb"})).etag == ""
    assert declared.versions(NONE) == ("", "")
