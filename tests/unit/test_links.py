"""What is read from a page, however it is written."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from crawlproj.discover.links import BINARY, MAX_TITLE, base_of, extract, query_encoding
from crawlproj.urls import MAX_SHOWN, Url
from tests.contract.discovering import collected, followed, refused

PAGE_URL = Url("http://example.com", "/dir/page.html")

MARKUP = [
    # spellings of an attribute
    ('<a href="/x">', ["/x"]),
    ("<a href='/x'>", ["/x"]),
    ("<a href=/x>", ["/x"]),
    ("<a href=/x/>", ["/x/"]),
    ('<A HREF="/x">', ["/x"]),
    ('<a\n\tclass=b\fhref\n=\n"/x"\nid=c>', ["/x"]),
    ('<a/href="/x"/>', ["/x"]),
    ('<a class="b"href="/x">', ["/x"]),
    ('<area shape=rect href="/x">', ["/x"]),
    ('<a href="/x" href="/y">', ["/x"]),
    ('<a href href="/y">', []),
    ("<a href=>", []),
    ('<a data-href="/x">', []),
    ('<a title=" href=/x" href="/y">', ["/y"]),
    ("<a title=' href=\"/x\"' href=/y>", ["/y"]),
    ("<a title=a=' href=/x>b'", ["/x"]),
    ('<a href="/a>b">', ["/a>b"]),
    ('<a "href=/x>', []),
    ("<a =href=/x href=/y>", ["/y"]),
    # what is and is not a tag
    ("<abbr href=/x><address href=/y><areas href=/z>", []),
    ("<a-b href=/x>", []),
    ("</a href=/x>", []),
    ("< a href=/x>", []),
    ("1 < 2 <a href=/x> 3 > 2", ["/x"]),
    ("<<a href=/x>", ["/x"]),
    ("<!-- <a href=/x> --><a href=/y>", ["/y"]),
    ("<!--><a href=/x>", ["/x"]),
    ("<!---><a href=/x>", ["/x"]),
    ("<!-- a --!><a href=/x>", ["/x"]),
    ("<!-- - -- <a href=/x>", []),
    ("<!doctype html><a href=/x>", ["/x"]),
    ("<?xml version='1.0'?><a href=/x>", ["/x"]),
    ("</ ><a href=/x></><a href=/y>", ["/x", "/y"]),
    ("<![CDATA[ <a href=/x> ]]>", []),
    ('<div title="<a href=/x>"><a href=/y></div>', ["/y"]),
    # raw text
    ("<script>'<a href=/x>'</script><a href=/y>", ["/y"]),
    ("<SCRIPT>'<a href=/x>'</script ><a href=/y>", ["/y"]),
    ("<script></scripts><a href=/x></script><a href=/y>", ["/y"]),
    ("<style><a href=/x></style><a href=/y>", ["/y"]),
    ("<textarea><a href=/x></textarea><a href=/y>", ["/y"]),
    ("<title><a href=/x></title><a href=/y>", ["/y"]),
    ("<iframe><a href=/x></iframe><a href=/y>", ["/y"]),
    ("<noscript><a href=/x></noscript>", ["/x"]),
    ("<a href=/x><plaintext><a href=/y>", ["/x"]),
    ("<script><a href=/x>", []),
    # broken off
    ("<a href=/x", []),
    ('<a href="/x', []),
    ("<a href=/x><a", ["/x"]),
    ("<a href=/x><", ["/x"]),
    ("<a href=/x></", ["/x"]),
    # unclosed and misnested
    ("<p><a href=/x><p><a href=/y></b></p></a></p>", ["/x", "/y"]),
    ("<table><a href=/x><tr><td><a href=/y>", ["/x", "/y"]),
    ("<a href=/\0x>", ["/\ufffdx"]),
    # values
    ("<a href='  /x\n'>", ["/x"]),
    ("<a href='/a\nb'>", ["/a\nb"]),
    ("<a href='/a b'>", ["/a b"]),
    ("<a href=''><a href=' '><a href='#'><a href=' #top'>", []),
    ("<a href=/b><a href=/a><a href=/b>", ["/b", "/a"]),
    ("<a href='?a=1&amp;b=2'>", ["?a=1&b=2"]),
    ("<a href='?a=1&copy=2&amp=3&lt'>", ["?a=1&copy=2&amp=3<"]),
    ("<a href='?a&copyright&copy;&notanentity;'>", ["?a&copyright©&notanentity;"]),
    ("<a href='&#x2f;&#47a&#0;&#xD800;&#99999999999999;'>", ["//a\ufffd\ufffd\ufffd"]),
    ("<a href='javascript:x()'><a href=mailto:x>", ["javascript:x()", "mailto:x"]),
]


@pytest.mark.parametrize(("markup", "links"), MARKUP)
def test_links_are_found_as_a_browser_finds_them(markup: str, links: list[str]) -> None:
    assert extract(markup.encode()).links == links


PIECES = st.sampled_from(
    [
        *(
            "<a ",
            "<A\n",
            "<area ",
            "href=/1",
            'href="/2"',
            "href='/3'",
            "href = /4",
            "href",
            "</a>",
        ),
        *(">", "/>", "<div ", 'class="a b"', "id=c", "</div>", "<p>", "text", "<", "</", "=", "/"),
        *("<!--", "-->", "--", "!", "<!", "<?", '"', "'", " ", "\n", "<b>", "</b>", "x>", "<br/>"),
        *("<script>", "</script>", "<style ", "</style>", "<textarea>", "</textarea>", "<title>"),
        *("</title>", "<base href=/5>", "<abbr ", "<noscript>", "</noscript>", "<li>", "<td>"),
    ]
)


@settings(max_examples=600, deadline=None)
@given(st.lists(PIECES, max_size=25).map("".join))
def test_the_scanner_agrees_with_a_tree_building_parser(markup: str) -> None:
    # Trees repeat unclosed anchors and move elements, hence the comparison of sets.
    tree = LexborHTMLParser(f"<body><p>{markup}")
    hrefs = [node.attributes["href"] for node in tree.css("a[href], area[href]")]
    assert set(extract(f"<body><p>{markup}".encode()).links) == {href for href in hrefs if href}


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([None, "utf-8", "utf-16", "shift_jis", "gbk"]))
def test_no_body_whatsoever_is_an_error(body: bytes, encoding: str | None) -> None:
    page = extract(b"<a href=/x>" + body, encoding, images=True, skip_nofollow=True)
    assert len(collected(page.links, PAGE_URL, query_encoding(page.encoding))) <= len(page.links)


IMAGES = [
    ("<img src=/i.png srcset='/i1.png 1x, /i2.png 2x'>", ["/i.png", "/i1.png", "/i2.png"]),
    ("<source srcset='/a,b.png,/c.png 100w,/d.png'>", ["/a,b.png,/c.png", "/d.png"]),
    ("<img srcset='data:image/png;base64,AA 1x, ,/d.png'>", ["data:image/png;base64,AA", "/d.png"]),
]


@pytest.mark.parametrize(("markup", "links"), IMAGES)
def test_images_are_taken_on_request_only(markup: str, links: list[str]) -> None:
    assert extract(markup.encode()).links == []
    assert extract(markup.encode(), images=True).links == links


def test_images_and_refreshes_keep_their_place_among_the_links() -> None:
    body = b"<a href=/1><img src=/2><meta http-equiv=refresh content='0; url=/3'><a href=/4>"
    assert extract(body, images=True).links == ["/1", "/2", "/3", "/4"]


def test_nofollow_anchors_are_left_out_on_request() -> None:
    body = b"<a rel='ugc NoFollow' href=/1><a href=/2 rel=nofollow><a rel=x href=/3><a href=/4>"
    assert extract(body).links == ["/1", "/2", "/3", "/4"]
    assert extract(body, skip_nofollow=True).links == ["/3", "/4"]


@pytest.mark.parametrize(
    ("markup", "nofollow", "noindex"),
    [
        ("", False, False),
        ("<meta name=robots content='index,follow'>", False, False),
        ("<META NAME=Robots CONTENT='NoIndex, NoFollow'>", True, True),
        ("<meta content=nofollow name=robots />", True, False),
        ("<meta name=robots content=noindex><meta name=robots content=nofollow>", True, True),
        ("<meta name=robots content=none>", True, True),
        ("<meta name=other content=none>", False, False),
    ],
)
def test_the_robots_meta_tag_is_read(markup: str, nofollow: bool, noindex: bool) -> None:
    page = extract(markup.encode())
    assert (page.nofollow, page.noindex) == (nofollow, noindex)


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("0;url=/x", ["/x"]),
        ("0; URL='/x y'", ["/x y"]),
        ("5, /x", ["/x"]),
        ("0.5;url = &quot;/x&quot;", ["/x"]),
        ("30", []),
        ("", []),
        ("soon; url=/x", []),
    ],
)
def test_the_target_of_a_refresh_is_a_link(content: str, target: list[str]) -> None:
    page = extract(f'<meta http-equiv="Refresh" content="{content}">'.encode())
    assert page.links == target


@pytest.mark.parametrize(
    ("markup", "title"),
    [
        ("<title>A page</title>", "A page"),
        ("<TITLE lang=en>\n A\t page \n</TITLE >", "A page"),
        ("<title>a &amp; b &lt;c&gt; <b></title>", "a & b <c> <b>"),
        ("<title></title><title>b</title>", ""),
        ("<title>first</title><title>second</title>", "first"),
        ("<!-- <title>a</title> --><title>b</title>", "b"),
        ("<svg><title>icon</title></svg>", ""),
        ("<title>a</title><svg><title>icon</title></svg>", "a"),
        ("<title>unclosed", "unclosed"),
        ("<title>a\u2028b\u00a0c</title>", "a\u2028b\u00a0c"),
        ("<title>a</titles>b</title>", "a</titles>b"),
        ("<titles>a</titles>", ""),
        ("", ""),
    ],
)
def test_the_title_is_one_line_of_text(markup: str, title: str) -> None:
    assert extract(markup.encode()).title == title


def test_a_long_title_is_cut() -> None:
    assert extract(b"<title>" + b"x" * 100_000).title == "x" * MAX_TITLE
    assert len(extract(b"<title>" + b"&#1" + b"1" * 100_000).title) <= MAX_TITLE


@pytest.mark.parametrize(
    ("body", "encoding", "used"),
    [
        ("<title>é</title>".encode(), None, "utf-8"),
        ("<title>é</title>".encode("cp1252"), None, "cp1252"),
        ("<title>é</title>".encode(), "no-such-encoding", "utf-8"),
        ("<title>é</title>".encode("cp1252"), "iso-8859-1", "cp1252"),
        ("<title>é</title>".encode(), "zip", "utf-8"),
        ("<title>é</title>".encode(), "punycode", "utf-8"),
        ("<title>é</title>".encode(), "utf-7", "utf-8"),
        ("<meta charset=base64><title>é</title>".encode(), None, "utf-8"),
        ("<meta charset=iso-8859-2><title>é</title>".encode("iso8859-2"), None, "iso8859-2"),
        ("<meta charset=latin1><title>é</title>".encode(), "utf-8", "utf-8"),
        ("<meta charset=utf-16><title>é</title>".encode(), None, "utf-8"),
        ("\ufeff<meta charset=latin1><title>é</title>".encode(), "latin1", "utf-8"),
        ("\ufeff<title>é</title>".encode("utf-16-le"), None, "utf-16-le"),
        ("\ufeff<title>é</title>".encode("utf-16-be"), "utf-8", "utf-16-be"),
        ("<title>é</title>".encode("utf-16-le"), "utf-16", "utf-16-le"),
        (
            "<?xml version='1.0' encoding='iso-8859-15'?><title>é</title>".encode("iso8859-15"),
            None,
            "iso8859-15",
        ),
        (
            b"<meta http-equiv=Content-Type content='text/html;charset=cp1252'><title>\xe9</title>",
            None,
            "cp1252",
        ),
    ],
)
def test_the_encoding_is_found_as_browsers_find_it(
    body: bytes, encoding: str | None, used: str
) -> None:
    page = extract(body, encoding)
    assert (page.title, page.encoding) == ("é", used)


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("gb2312", "你好"), ("shift_jis", "①日本"), ("big5", "你好"), ("euc-kr", "한국")],
)
def test_asian_pages_are_read(encoding: str, text: str) -> None:
    codec = {"shift_jis": "cp932"}.get(encoding, encoding)
    body = f"<meta charset={encoding}><title>{text}</title>".encode(codec)
    assert extract(body).title == text


def test_a_broken_byte_spoils_one_character_only() -> None:
    page = extract(b"<title>a\xffb</title><a href=/x\xff>", "utf-8")
    assert page.title == "a\ufffdb"
    assert page.links == ["/x\ufffd"]


@pytest.mark.parametrize(
    "body",
    [
        b"\x89PNG\r\n\x1a\n<a href=/x>",
        b"%PDF-1.7\n<a href=/x>",
        b"PK\x03\x04<a href=/x>",
        bytes(range(256)) * 4 + b"<a href=/x>",
        "<a href=/x>".encode("utf-16-le"),
    ],
)
def test_nothing_is_read_from_a_binary_body(body: bytes) -> None:
    page = extract(body)
    assert page.encoding == BINARY
    assert page.links == []


def test_an_empty_body_is_an_empty_page() -> None:
    page = extract(b"")
    assert (page.title, page.links, page.overflow, page.encoding) == ("", [], 0, "utf-8")


def test_links_beyond_the_maximum_are_counted() -> None:
    body = b"".join(b"<a href=/%d>" % number for number in range(100)) + b"<a href=/1>"
    page = extract(body, max_links=30)
    assert page.links == [f"/{number}" for number in range(30)]
    assert page.overflow == 70


def test_too_many_links_cost_no_more_memory_than_the_maximum() -> None:
    body = b"".join(b"<a href=/%d>" % number for number in range(200_000))
    tracemalloc.start()
    try:
        page = extract(body)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(page.links), page.overflow) == (10_000, 190_000)
    assert peak_bytes < 2 * len(body)


N = 100_000
HOSTILE = {
    "nested elements": b"<div>" * N,
    "unclosed formatting": b"<font id=1>x<p>" * N,
    "a million links": b"<a href=/x>" * 1_000_000,
    "unclosed tags": b"<a " * N,
    "unclosed values": b"<a href=" * N,
    "unclosed double quotes": b'<a x="' * N,
    "unclosed single quotes": b"<b x='" * N,
    "many attributes": b"<a " + b" ".join(b"a%d=1" % i for i in range(N)),
    "unmatched end tags": b"<div>" * N + b"</span>" * N,
    "unclosed comments": b"<!--" * N,
    "a comment of dashes": b"<!--" + b"-" * N,
    "almost the end of a script": b"<script>" + b"</scrip" * N,
    "almost the end of a title": b"<title>" + b"</titl" * N,
    "unclosed scripts": b"<script>" * N,
    "angle brackets": b"<" * N,
    "slashes": b"<a " + b"/ " * N,
    "equals signs": b"<a " + b"=" * N,
    "entities": b"<a href='" + b"&amp" * N + b"'>",
    "metas": b"<meta " * N,
    "spaces in a tag": b"<a x" + b" " * N + b"=",
    "commas in a srcset": b"<img srcset='" + b"," * N + b"x" * N + b" ," * N + b"'>",
    "spaces in a refresh": b"<meta http-equiv=refresh content='" + b" " * N + b"5" * N + b"'>",
    "one long text": b"<p>" + b"x" * 50_000_000,
    "one long href": b"<a href='" + b"x" * 10_000_000 + b"'>",
}


ORDINARY = b"".join(
    b'<p>Some words of <a href="/page/%d">a page</a>, and more of them.</p>\n' % number
    for number in range(2000)
)
TIMES_AS_LONG = 20
"""A byte of the worst takes twice as long as one of an ordinary page; of anything quadratic, more
than a hundred times."""


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_markup_takes_no_longer_than_any_other(body: bytes) -> None:
    ordinary_s = min(reading_takes_s(ORDINARY) for _ in range(3)) * len(body) / len(ORDINARY)
    assert reading_takes_s(body) < TIMES_AS_LONG * ordinary_s


def reading_takes_s(body: bytes) -> float:
    """Of this process alone, whatever else the machine is doing."""
    began_s = time.process_time()
    collected(extract(body, images=True).links, PAGE_URL)
    return time.process_time() - began_s


@pytest.mark.parametrize(
    ("markup", "base"),
    [
        ("", "http://example.com/dir/page.html"),
        ("<base href=/other/>", "http://example.com/other/"),
        ("<base href=' https://other.org/x '>", "https://other.org/x"),
        ("<base target=_top><base href=/1/><base href=/2/>", "http://example.com/1/"),
        ("<base href=javascript:alert(1)>", "http://example.com/dir/page.html"),
        ("<base href=file:///etc/><base href=/2/>", "http://example.com/dir/page.html"),
        ("<base href=data:text/html,x>", "http://example.com/dir/page.html"),
        ("<base href=http://[::1>", "http://example.com/dir/page.html"),
        ("<base href=''>", "http://example.com/dir/page.html"),
        (f"<base href='/{'x' * 5000}'>", "http://example.com/dir/page.html"),
    ],
)
def test_the_base_of_the_links_is_the_first_usable_base_tag(markup: str, base: str) -> None:
    assert str(base_of(extract(markup.encode()), PAGE_URL)) == base


def test_links_become_different_normal_urls_and_reasons() -> None:
    hrefs = ["a", "./a", "A", "/b#c", "//other.org", "javascript:x", "http://[", "/" + "x" * 99_999]
    pushes = collected(hrefs, PAGE_URL)
    assert followed(pushes) == [
        "http://example.com/dir/a",
        "http://example.com/dir/A",
        "http://example.com/b",
        "http://other.org/",
    ]
    long = "/" + "x" * (MAX_SHOWN - 1)
    assert refused(pushes) == [("scheme", "javascript:x"), ("host", "http://["), ("length", long)]


@pytest.mark.parametrize(
    ("encoding", "path"), [("cp1251", "/?%E6"), ("utf-16-le", "/?%D0%B6"), ("utf-8", "/?%D0%B6")]
)
def test_queries_are_escaped_in_the_encoding_of_the_page(encoding: str, path: str) -> None:
    pushes = collected(["/?ж"], PAGE_URL, query_encoding(encoding))
    assert followed(pushes) == ["http://example.com" + path]
