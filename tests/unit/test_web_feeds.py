"""What is read of a feed, and what a hostile one cannot do."""

from __future__ import annotations

import gzip

import pytest

from crawlproj.discover.sitemaps import TooLarge
from crawlproj.discover.web_feeds import NoFeed, read, read_any

BASE = "http://h/feeds/all.xml"
XML = '<?xml version="1.0" encoding="utf-8"?>\n'


def rss(items: str, head: str = XML) -> str:
    own = '<link>http://h/</link><atom:link href="http://h/rss" rel="self"/>'
    space = 'xmlns:atom="http://www.w3.org/2005/Atom"'
    return f'{head}<rss version="2.0" {space}><channel>{own}{items}</channel></rss>'


def atom(entries: str) -> str:
    own = '<link href="http://h/"/><link rel="self" href="/feed"/>'
    return f'{XML}<feed xmlns="http://www.w3.org/2005/Atom">{own}{entries}</feed>'


CASES: dict[str, tuple[str, list[str]]] = {
    "rss": (
        rss(
            "<item><title>t</title><link>http://h/1</link></item><item><link>http://h/2</link></item>"
        ),
        ["http://h/1", "http://h/2"],
    ),
    "spaces, CDATA and entities": (
        rss(
            "<item><link>\n http://h/?a=1&amp;b=2 </link></item>"
            "<item><link><![CDATA[http://h/?c&d]]></link></item>"
        ),
        ["http://h/?a=1&b=2", "http://h/?c&d"],
    ),
    "a permalink where there is no link": (
        rss(
            "<item><guid>http://h/1</guid></item>"
            '<item><guid isPermaLink="false">http://h/2</guid></item>'
            "<item><guid>tag:h,2020:3</guid></item>"
            "<item><guid>http://h/id</guid><link>http://h/4</link></item>"
        ),
        ["http://h/1", "http://h/4"],
    ),
    "links in quoted HTML and in comments": (
        rss(
            "<item><description><![CDATA[<link>http://x/</link>]]></description>"
            "<!-- <link>http://x/</link> --><link>http://h/1</link></item>"
        ),
        ["http://h/1"],
    ),
    "links of other namespaces": (
        rss(
            '<item><atom:link href="http://x/"/><media:link>http://x/</media:link>'
            "<linked>http://x/</linked><link>http://h/1</link></item>"
        ),
        ["http://h/1"],
    ),
    "relative and twice": (
        rss("<item><link>/a</link></item><item><link>b</link></item><item><link>/a</link></item>"),
        ["http://h/a", "http://h/feeds/b"],
    ),
    "atom": (
        atom(
            '<entry><link rel="edit" href="http://h/edit"/><link rel="alternate" type="text/html" '
            "href='http://h/1?a&amp;b'/><link href=\"http://h/other\"/></entry>"
            '<entry><link href="/2"/></entry><entry><id>urn:x</id></entry>'
        ),
        ["http://h/1?a&b", "http://h/2"],
    ),
    "atom with a prefix": (
        '<a:feed xmlns:a="http://www.w3.org/2005/Atom"><a:link href="http://h/"/>'
        '<a:entry><a:link href="http://h/1"/><link href="http://x/"/></a:entry></a:feed>',
        ["http://h/1"],
    ),
    "rss 1.0": (
        f'{XML}<rdf:RDF xmlns="http://purl.org/rss/1.0/"><channel><link>http://h/</link></channel>'
        '<item rdf:about="http://h/1"><link>http://h/1</link></item></rdf:RDF>',
        ["http://h/1"],
    ),
    "cut off": (
        f"{XML}<rss><item><link>http://h/1</link></item><item><link>http://h/2",
        ["http://h/1", "http://h/2"],
    ),
    "no entries": (rss(""), []),
}


@pytest.mark.parametrize("name", CASES)
def test_the_entries_of_a_feed_lead_to_these_pages(name: str) -> None:
    text, urls = CASES[name]
    assert read(text.encode(), BASE).urls == urls
    assert read(gzip.compress(text.encode("utf-16")), BASE).urls == urls
    assert read_any(text.encode(), BASE).urls == urls, "robots.txt may name it as a sitemap"


@pytest.mark.parametrize("text", ["", "<html><link href=/x></html>", '{"items": []}', "\x00" * 99])
def test_what_is_no_feed_is_said(text: str) -> None:
    with pytest.raises(NoFeed, match="neither RSS nor Atom"):
        read(text.encode(), BASE)


def test_a_hostile_feed_expands_nothing_and_loads_nothing() -> None:
    laughs = "".join(f'<!ENTITY l{n} "&l{n - 1};&l{n - 1};">' for n in range(1, 60))
    outside = '<!ENTITY file SYSTEM "file:///etc/passwd">'
    head = f'{XML}<!DOCTYPE rss [<!ENTITY l0 "http://x/">{outside}{laughs}]>'
    items = "<item><link>http://h/&l59;</link></item><item><link>http://h/&file;</link></item>"
    found = read(rss(items, head).encode(), BASE).urls
    assert found == ["http://h/&l59;", "http://h/&file;"]


def test_a_feed_is_read_up_to_its_limits() -> None:
    many = rss("".join(f"<item><link>http://h/{n}</link></item>" for n in range(20)))
    found = read(many.encode(), BASE, most_urls=3)
    assert (found.urls, found.overflow) == ([f"http://h/{n}" for n in range(3)], True)
    with pytest.raises(TooLarge):
        read(gzip.compress(many.encode()), BASE, most_bytes=100)
    with pytest.raises(TooLarge):
        read(many.encode(), BASE, most_bytes=100)


@pytest.mark.parametrize(
    "piece", ["<link ", "<item>", "<!--", "<![CDATA[", "<link>", "<guid x=", "<dc:date>"]
)
def test_many_beginnings_without_an_end_are_read_once(piece: str) -> None:
    """What is not linear in its size would not come to an end."""
    assert read(rss(piece * 100_000).encode(), BASE).urls == []


DATES: dict[str, tuple[str, int]] = {
    "pubDate": (rss("<item>{}<pubDate>Tue, 18 Nov 2025 00:00:00 GMT</pubDate></item>"), 1763424000),
    "dc:date": (rss("<item><dc:date>2025-11-18</dc:date>{}</item>"), 1763424000),
    "updated": (
        atom(
            "<updated>2030-01-01T00:00:00Z</updated><entry>{}<published>2020-01-01T00:00:00Z"
            "</published><updated>2025-11-18T00:00:00Z</updated></entry>"
        ),
        1763424000,
    ),
    "none": (rss("<item>{}</item>"), 0),
    "nonsense": (rss("<item>{}<pubDate>soon</pubDate></item>"), 0),
}


@pytest.mark.parametrize("name", DATES)
def test_entries_say_when_they_were_changed(name: str) -> None:
    text, seconds = DATES[name]
    link = '<link href="http://h/1"/>' if "<feed" in text else "<link>http://h/1</link>"
    [entry] = read(text.replace("{}", link).encode(), BASE).entries
    assert (entry.url, entry.modified_s) == ("http://h/1", seconds)
