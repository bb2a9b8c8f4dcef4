"""What is read of a sitemap, and what a hostile one cannot do."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from crawlproj.discover.sitemap_reading import in_order
from crawlproj.discover.sitemaps import MOST_BESIDE, Entry, Sitemap, TooLarge, read, w3c_seconds

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
    found = read(body)
    assert (found.is_index, found.urls) == (False, [f"http://h/{path}" for path in paths])


def test_an_index_is_told_from_a_list_of_pages() -> None:
    body = f"{HEAD}<sitemapindex {NAMESPACE}><sitemap><loc>http://h/s1.xml</loc></sitemap>".encode()
    assert read(body) == Sitemap(True, [Entry("http://h/s1.xml")])


def test_entities_of_a_sitemap_are_never_expanded_or_loaded(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("http://h/secret")
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 30))
    head = f'{HEAD}<!DOCTYPE u [<!ENTITY x SYSTEM "file://{secret}"><!ENTITY l0 "ha">{laughs}]>'
    inside = "<loc>&x;</loc><loc>http://h/&l29;</loc><loc>http://h/a</loc>"
    assert read(urlset(inside, head)).urls == ["&x;", "http://h/&l29;", "http://h/a"]


def test_no_more_than_the_protocol_allows_is_read() -> None:
    body = urlset("".join(f"<loc>http://h/{number}</loc>" for number in range(12)))
    found = read(body, most_urls=10)
    assert (found.urls, found.overflow) == ([f"http://h/{n}" for n in range(10)], True)
    assert not read(body, most_urls=12).overflow


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_sitemap_that_is_too_large_is_refused(pack: type[bytes]) -> None:
    body = urlset("<loc>http://h/a</loc>" + " " * 1_000_000)
    with pytest.raises(TooLarge):
        read(pack(body), most_bytes=1_000_000)
    assert read(pack(body), most_bytes=len(body)).urls == ["http://h/a"]


@pytest.mark.parametrize(
    "piece",
    [
        "<loc>",
        "<loc><![CDATA[",
        "<!--",
        "<loc",
        "http://",
        "&",
        "<!-",
        "<x:link ",
        "<x:loc>",
        "<url>",
    ],
)
def test_a_million_beginnings_without_an_end_are_read_once(piece: str) -> None:
    """In quadratic time this would take hours."""
    assert read(urlset(piece * 200_000)).urls == []
    assert read((piece * 200_000).encode()).urls in ([], [piece * 200_000])


def url(inside: str) -> bytes:
    return urlset(f"<url>{inside}</url>")


LOC, DAY = "<loc>http://h/a</loc>", 1_763_424_000
SAID: dict[str, tuple[bytes, Entry]] = {
    "lastmod": (url(f"{LOC}<lastmod>2025-11-18</lastmod>"), Entry("", DAY)),
    "lastmod first": (url(f"<lastmod> 2025-11-18T01:00:00+01:00 </lastmod>{LOC}"), Entry("", DAY)),
    "lastmod that is none": (url(f"{LOC}<lastmod>yesterday</lastmod>"), Entry("")),
    "priority": (url(f"{LOC}<priority>0.8</priority>"), Entry("", priority=0.8)),
    "priority too high": (url(f"{LOC}<priority>12</priority>"), Entry("", priority=1.0)),
    "priority that is none": (url(f"{LOC}<priority>nan</priority>"), Entry("")),
    "priority with a comma": (url(f"{LOC}<priority>0,8</priority>"), Entry("")),
    "changefreq": (url(f"{LOC}<changefreq>daily</changefreq>"), Entry("")),
    "alternates": (
        url(
            f'{LOC}<xhtml:link rel="alternate" hreflang="de" href="http://h/de?a&amp;b"/>'
            "<xhtml:link rel='alternate' hreflang='fr' href='http://h/fr'></xhtml:link>"
            '<xhtml:link rel="alternate" hreflang="fr" href="http://h/fr"/>'
            '<xhtml:link rel="stylesheet" href="http://h/x.css"/>'
        ),
        Entry("", alternates=("http://h/de?a&b", "http://h/fr")),
    ),
    "too many alternates": (
        url(LOC + "".join(f'<x:link rel="alternate" href="http://h/{n}"/>' for n in range(200))),
        Entry("", alternates=tuple(f"http://h/{n}" for n in range(MOST_BESIDE))),
    ),
    "images": (
        url(f"{LOC}<image:image><image:loc>http://h/i.png</image:loc></image:image>"),
        Entry("", media=("http://h/i.png",)),
    ),
    "videos": (
        url(
            f"{LOC}<video:video><video:thumbnail_loc>http://h/t.png</video:thumbnail_loc>"
            "<video:title>T</video:title><video:content_loc>http://h/v.mp4</video:content_loc>"
            '<video:player_loc allow_embed="yes">http://h/player?v=1</video:player_loc>'
            "<video:publication_date>2025-11-18</video:publication_date></video:video>"
        ),
        Entry("", DAY, media=("http://h/v.mp4", "http://h/player?v=1")),
    ),
    "news": (
        url(
            f"{LOC}<news:news><news:publication><news:name>N</news:name></news:publication>"
            "<news:publication_date>2025-11-18T00:00Z</news:publication_date>"
            "<news:title>loc</news:title></news:news>"
        ),
        Entry("", DAY),
    ),
    "modified after it was published": (
        url(
            f"{LOC}<news:publication_date>2020-01-01</news:publication_date>"
            "<lastmod>2025-11-18</lastmod>"
        ),
        Entry("", DAY),
    ),
    "said in a comment": (url(f"{LOC}<!-- <lastmod>2025-11-18</lastmod> -->"), Entry("")),
}


@pytest.mark.parametrize("name", SAID)
def test_what_a_sitemap_says_of_a_page(name: str) -> None:
    body, expected = SAID[name]
    assert read(body).entries == [expected._replace(url="http://h/a")]


def test_what_is_said_of_a_page_is_said_of_no_other() -> None:
    body = urlset(
        "<url><loc>http://h/a</loc><lastmod>2025-11-18</lastmod></url>"
        "<url><priority>1</priority><loc>http://h/b</loc></url><url><loc>http://h/c</loc></url>"
    )
    assert read(body).entries == [
        Entry("http://h/a", DAY),
        Entry("http://h/b", priority=1.0),
        Entry("http://h/c"),
    ]


def test_the_sitemaps_of_an_index_have_dates_too() -> None:
    inside = "<sitemap><loc>http://h/s.xml</loc><lastmod>2025-11-18</lastmod></sitemap>"
    body = f"{HEAD}<sitemapindex {NAMESPACE}>{inside}</sitemapindex>".encode()
    assert read(body) == Sitemap(True, [Entry("http://h/s.xml", DAY)])


def test_pages_of_higher_priority_come_first_with_their_alternates() -> None:
    entries = [
        Entry("a"),
        Entry("b", priority=0.1, media=("b.png",)),
        Entry("c", priority=0.9, alternates=("c-de",)),
        Entry("d"),
    ]
    assert list(in_order(entries)) == ["c", "c-de", "a", "d", "b"]
    assert list(in_order(entries, with_media=True))[-1] == "b.png"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2025", 1_735_689_600),
        ("2025-11", 1_761_955_200),
        ("2025-11-18", DAY),
        ("2025-11-18T00:00Z", DAY),
        ("2025-11-18T00:00:00.123Z", DAY),
        ("2025-11-18 00:00:00", DAY),
        ("2025-11-18T05:30:00+0530", DAY),
        ("2025-11-17T22:00:00-02:00", DAY),
        ("2025-13-01", 0),
        ("2025-02-31", 0),
        ("1950-01-01", 0),
        ("9999-12-31", 0),
        ("18 Nov 2025", 0),
        ("", 0),
    ],
)
def test_dates_are_read_as_the_protocol_has_them(text: str, seconds: int) -> None:
    assert w3c_seconds(text) == seconds
