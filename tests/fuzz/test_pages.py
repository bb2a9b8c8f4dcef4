"""HTML → links: no exception, bounded output, linear time, agreement with a browser's parser."""

from __future__ import annotations

import html

from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from crawlproj.discover.links import MAX_TITLE, base_of, extract, query_encoding
from crawlproj.urls import MAX_LENGTH, normalise
from tests.contract.discovering import collected, followed
from tests.fuzz.harness import fuzzed, linear_time

URL = normalise("http://example.com/dir/page")
# fmt: off
TOKENS = st.sampled_from([
    "<a ", "<A\n", "<area ", "<a", "<abbr ", "href=/1", 'href="/2"', "href='/3'", "href = /4",
    "href", "HREF=", "href=javascript:x", 'href="&#x2f;&amp;&copy=1"', "</a>", ">", "/>", "<div ",
    'class="a b"', "rel=nofollow", "</div>", "<p>", "text", "<", "</", "=", "/", "<!--", "-->",
    "--!>", "--", "!", "<!", "<!doctype html>", "<?", '"', "'", " ", "\n", "\f", "\0", "<b>",
    "<script>", "</script>", "<script ", "<style ", "</style>", "<textarea>", "</textarea>",
    "<title>", "</title>", "<base href=/5/>", "<base href='http://[", "<meta charset=utf-16>",
    "<meta name=robots content=none>", "<meta http-equiv=refresh content='0;url=/6'>", "<svg>",
    "<iframe src=/7>", "</iframe>", "<plaintext>", "<link rel=next href=/8>", "<noscript>",
    "<img srcset='/9 1x, /10 2x'>", "<table><tr><td>", "&#0;", "&#xD800;", "&lt", "é", "\ufeff",
])
# fmt: on
MARKUP = st.lists(TOKENS | st.text(max_size=3), max_size=30).map("".join)
BODIES = MARKUP.map(str.encode) | st.binary(max_size=300) | MARKUP.map(lambda s: s.encode("utf-16"))
CHARSETS = st.sampled_from(
    [None, "utf-8", "utf-16", "shift_jis", "gbk", "iso-2022-jp", "zip", "punycode", "x" * 99]
)
NOTHING_MOVES = st.sampled_from(
    [
        *("<a ", "<area ", "href=/1", 'href="/2"', "href='/3'", "href = /4", "</a>", ">", "<div "),
        *('class="a b"', "</div>", "<p>", "text", "<!--", "-->", "--", '"', "'", " ", "\n", "<b>"),
        *("</b>", "<script>", "</script>", "<style ", "</style>", "<textarea>", "</textarea>"),
        *("<abbr ", "=", "/", "<", "<!", "<?", "x>", "&amp;", "<li>", "HREF=/5"),
    ]
)


@fuzzed(BODIES, CHARSETS, st.booleans(), examples=500)
def test_any_body_is_a_page_within_bounds(body: bytes, charset: str | None, heeds: bool) -> None:
    page = extract(body, charset, max_links=7, images=True, skip_nofollow=heeds)
    assert len(page.links) <= 7 and len(set(page.links)) == len(page.links)
    assert (page.overflow == 0) or len(page.links) == 7
    assert len(page.title) <= MAX_TITLE
    assert sum(map(len, page.links)) <= 4 * len(body) + 100
    assert page == extract(body, charset, max_links=7, images=True, skip_nofollow=heeds)
    pushes = collected(page.links, base_of(page, URL), query_encoding(page.encoding))
    assert len(pushes) <= len(page.links)
    assert all(len(url) <= MAX_LENGTH for url in followed(pushes))


@fuzzed(st.lists(NOTHING_MOVES, max_size=25).map("".join), examples=500)
def test_links_are_those_that_a_browser_finds(markup: str) -> None:
    tree = LexborHTMLParser(f"<body><p>{markup}")
    hrefs = [node.attributes["href"] for node in tree.css("a[href], area[href]")]
    wanted = {href.strip(" \t\n\f\r") for href in hrefs if href} - {""}
    found = set(extract(f"<body><p>{markup}".encode()).links)
    assert found == {href for href in wanted if not href.startswith("#")}


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=40)


@fuzzed(TEXT, TEXT, st.sampled_from(["utf-8", "utf-16", "utf-16-be"]), examples=300)
def test_what_is_escaped_properly_comes_back(title: str, href: str, charset: str) -> None:
    markup = f'<title>{html.escape(title)}</title><a href="{html.escape(href)}">x</a>'
    page = extract(markup.encode(charset), charset)
    spaces = str.maketrans("\t\n\f", "   ")
    assert page.title.split() == title.translate(spaces)[:MAX_TITLE].split()
    stripped = href.strip(" \t\n\f\r")
    assert page.links == ([stripped] if stripped and stripped[0] != "#" else [])


@fuzzed(st.lists(TOKENS, min_size=1, max_size=4).map("".join), examples=25)
def test_a_page_of_one_thing_over_and_over_costs_linear_time(piece: str) -> None:
    body = (piece * (300_000 // len(piece))).encode()
    with linear_time():
        page = extract(body, images=True, skip_nofollow=True)
        collected(page.links, base_of(page, URL), query_encoding(page.encoding))
