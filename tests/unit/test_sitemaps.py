"""What is read of a sitemap, and what a hostile one cannot do."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from crawlproj.discover.sitemaps import Sitemap, TooLarge, read

NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


def urlset(inside: str, head: str = HEAD) -> bytes:
    return f"{head}<urlset {NAMESPACE}>{inside}</urlset>".encode()


CASES: dict[str, tuple[bytes, list[str]]] = {
    "plain": (
        urlset("<url><loc>http://h/a</loc></url><url><loc>http://h/b</loc></url>"),
        ["a", "b"],
    ),
    "spaces": (urlset("<url><loc >\n http://h/a \n</loc></url>"), ["a"]),
    "entities": (urlset("<url><loc>http://h/?a=1&amp;b=&#50;</loc></url>"), ["?a=1&b=2"]),
    "bare ampersand": (urlset("<url><loc>http://h/?a=1&b=2</loc></url>"), ["?a=1&b=2"]),
    "CDATA": (urlset("<url><loc><![CDATA[http://h/a?b&c]]></loc></url>"), ["a?b&c"]),
    "twice": (urlset("<url><loc>http://h/a</loc></url>" * 2), ["a"]),
    "empty": (urlset("<url><loc></loc></url>"), []),
    "commented out": (
        urlset("<!-- <url><loc>http://h/x</loc></url> --><loc>http://h/a</loc>"),
        ["a"],
    ),
    "unclosed comment": (urlset("<loc>http://h/a</loc><!-- <loc>http://h/x</loc>"), ["a"]),
    "images": (
        urlset(
            "<url><loc>http://h/a</loc><image:image><image:loc>http://h/i.png</image:loc></image:image></url>"
        ),
        ["a"],
    ),
    "prefix": (
        b'<s:urlset xmlns:s="x"><s:url><s:loc>http://h/a</s:loc></s:url><loc>http://h/x</loc></s:urlset>',
        ["a"],
    ),
    "cut off": (urlset("<url><loc>http://h/a</loc></url><url><loc>http://h/b")[:-9], ["a"]),
    "BOM": (b"\xef\xbb\xbf" + urlset("<loc>http://h/a</loc>"), ["a"]),
    "UTF-16": (urlset("<loc>http://h/a</loc>", head="").decode().encode("utf-16"), ["a"]),
    "gzip": (gzip.compress(urlset("<loc>http://h/a</loc>")), ["a"]),
    "gzip cut off": (gzip.compress(urlset("<loc>http://h/a</loc>" + "x" * 9000))[:-12], ["a"]),
    "gzip that is none": (b"\x1f\x8b nothing", []),
    "text": (b"http://h/a\r\n  http://h/b  \n# no\n\nftp://h/c\nhttp://h/d e\n", ["a", "b"]),
    "a page that is no sitemap": (b"<!doctype html><a href=http://h/x>http://h/y</a>", []),
    "nothing": (b"", []),
    "binary": (bytes(range(256)), []),
}


@pytest.mark.parametrize("name", CASES)
def test_the_pages_of_a_sitemap_are_read_however_it_is_written(name: str) -> None:
    body, paths = CASES[name]
    assert read(body) == Sitemap(False, [f"http://h/{path}" for path in paths])


def test_an_index_is_told_from_a_list_of_pages() -> None:
    body = f"{HEAD}<sitemapindex {NAMESPACE}><sitemap><loc>http://h/s1.xml</loc></sitemap>".encode()
    assert read(body) == Sitemap(True, ["http://h/s1.xml"])


def test_entities_of_a_sitemap_are_never_expanded_or_loaded(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("http://h/secret")
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 30))
    head = f'{HEAD}<!DOCTYPE u [<!ENTITY x SYSTEM "file://{secret}"><!ENTITY l0 "ha">{laughs}]>'
    inside = "<loc>&x;</loc><loc>http://h/&l29;</loc><loc>http://h/a</loc>"
    assert read(urlset(inside, head)).urls == ["&x;", "http://h/&l29;", "http://h/a"]


def test_no_more_than_the_protocol_allows_is_read() -> None:
    body = urlset("".join(f"<loc>http://h/{number}</loc>" for number in range(12)))
    assert read(body, most_urls=10) == Sitemap(False, [f"http://h/{n}" for n in range(10)], True)
    assert not read(body, most_urls=12).overflow


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_sitemap_that_is_too_large_is_refused(pack: type[bytes]) -> None:
    body = urlset("<loc>http://h/a</loc>" + " " * 1_000_000)
    with pytest.raises(TooLarge):
        read(pack(body), most_bytes=1_000_000)
    assert read(pack(body), most_bytes=len(body)).urls == ["http://h/a"]


@pytest.mark.parametrize(
    "piece", ["<loc>", "<loc><![CDATA[", "<!--", "<loc", "http://", "&", "<!-"]
)
def test_a_million_beginnings_without_an_end_are_read_once(piece: str) -> None:
    """In quadratic time this would take hours."""
    assert read(urlset(piece * 200_000)).urls == []
    assert read((piece * 200_000).encode()).urls in ([], [piece * 200_000])
