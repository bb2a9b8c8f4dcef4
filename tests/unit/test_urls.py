"""What counts as one URL, what is refused, and why."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from w3lib.url import safe_url_string

from crawlproj.urls import (
    MAX_LENGTH,
    Url,
    UrlError,
    is_safe,
    location,
    normalise,
    param_pattern,
    registrable_domain,
)

TOKEN_NAMES = ("s", "sid", "SID", "sessionid", "session_id", "cfid")
TOKEN = "9b1deb4d3b7d4bad9bdd2b0d7b3dcb6d"
NO_TOKENS = (
    *(
        "",
        "7",
        "17",
        "5318008",
        "2026111720150001234567",
        "Krankenversicherung",
        "donaudampfschiff",
    ),
    *("weltmeisterschaft2026", "sonyxperia10iv128gb5g", "top-10-of-2025-and-7-more-2026"),
    *("9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", TOKEN[:19], "0123456789abcdefghijklmnop"),
)

BASE = Url("http://example.com", "/dir/page.html?old=1")

ABSOLUTE = [
    # the parts of a URL
    ("http://example.com", "http://example.com/"),
    ("http://example.com?q=1", "http://example.com/?q=1"),
    ("http://example.com#top", "http://example.com/"),
    ("http://example.com/a?b=c#d?e", "http://example.com/a?b=c"),
    ("http://example.com/a#", "http://example.com/a"),
    ("http://example.com/a?", "http://example.com/a"),
    ("http://example.com/a?b=2&a=1&b=1", "http://example.com/a?b=2&a=1&b=1"),
    ("http://example.com//a//b/", "http://example.com//a//b/"),
    # whitespace
    ("  http://example.com/a \n", "http://example.com/a"),
    ("\x00\x1fhttp://example.com/a\x00", "http://example.com/a"),
    ("ht\ntp://exa\tmple.com/a\r\nb", "http://example.com/ab"),
    ("http://example.com/a b?c d", "http://example.com/a%20b?c%20d"),
    ("http://example.com/a\x00b\x7f", "http://example.com/a%00b%7F"),
    # slashes and the other slashes
    ("http:\\\\example.com\\a\\..\\b", "http://example.com/b"),
    ("http:example.com/a", "http://example.com/a"),
    ("http:/example.com/a", "http://example.com/a"),
    ("http:////example.com/a", "http://example.com/a"),
    ("http://example.com/a?b\\c", "http://example.com/a?b%5Cc"),
    # userinfo
    ("http://user:secret@example.com/", "http://example.com/"),
    ("http://good.com@evil.com/", "http://evil.com/"),
    ("http://a@b@evil.com:81/", "http://evil.com:81/"),
    ("http://good.com\\@evil.com/", "http://good.com/@evil.com/"),
    ("http://good.com/@evil.com", "http://good.com/@evil.com"),
    ("http://good.com?@evil.com", "http://good.com/?@evil.com"),
    # ports
    ("http://example.com:80/", "http://example.com/"),
    ("https://example.com:443/", "https://example.com/"),
    ("https://example.com:80/", "https://example.com:80/"),
    ("http://example.com:/", "http://example.com/"),
    ("http://example.com:0008080/", "http://example.com:8080/"),
    ("http://example.com:65535/", "http://example.com:65535/"),
    # names
    ("HTTP://EXAMPLE.COM/A", "http://example.com/A"),
    ("http://example.com./", "http://example.com/"),
    ("http://EXAMPLE.com.:80", "http://example.com/"),
    ("http://ex%41mple.com/", "http://example.com/"),
    ("http://my_host-1.example/", "http://my_host-1.example/"),
    ("http://bücher.example/", "http://xn--bcher-kva.example/"),
    ("http://BÜCHER.example/", "http://xn--bcher-kva.example/"),
    ("http://bu\u0308cher.example/", "http://xn--bcher-kva.example/"),
    ("http://b%C3%BCcher.example/", "http://xn--bcher-kva.example/"),
    ("http://XN--bcher-KVA.example/", "http://xn--bcher-kva.example/"),
    ("http://faß.example/", "http://xn--fa-hia.example/"),
    ("http://例え。テスト/", "http://xn--r8jz45g.xn--zckzah/"),
    ("http://☕.example/", "http://xn--53h.example/"),
    ("http://my_a.bücher.example/", "http://my_a.xn--bcher-kva.example/"),
    ("http://so\u00adft.example/", "http://soft.example/"),
    # addresses
    ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/"),
    ("http://0x7f.1/", "http://127.0.0.1/"),
    ("http://0177.0.0.1/", "http://127.0.0.1/"),
    ("http://2130706433/", "http://127.0.0.1/"),
    ("http://0x7F000001./", "http://127.0.0.1/"),
    ("http://127.1/", "http://127.0.0.1/"),
    ("http://1.2.3/", "http://1.2.0.3/"),
    ("http://0x/", "http://0.0.0.0/"),
    ("http://１２７.0.0.1/", "http://127.0.0.1/"),
    ("http://1.2.3.4.com/", "http://1.2.3.4.com/"),
    ("http://[::1]:80/", "http://[::1]/"),
    ("http://[0:0:0:0:0:0:0:1]:81/", "http://[::1]:81/"),
    ("http://[2001:DB8::0:1]/", "http://[2001:db8::1]/"),
    ("http://[::ffff:10.0.0.1]/", "http://[::ffff:a00:1]/"),
    ("http://[1:0:0:2:0:0:0:3]/", "http://[1:0:0:2::3]/"),
    # percent-encoding
    ("http://example.com/%7euser/%41%2d%2E%5f", "http://example.com/~user/A-._"),
    ("http://example.com/%c3%a9?%c3%a9", "http://example.com/%C3%A9?%C3%A9"),
    ("http://example.com/é?é", "http://example.com/%C3%A9?%C3%A9"),
    ("http://example.com/%e9?q=%e9", "http://example.com/%E9?q=%E9"),
    ("http://example.com/%2f%3F%23", "http://example.com/%2F%3F%23"),
    ("http://example.com/%zz?%zz%", "http://example.com/%zz?%zz%"),
    ("http://example.com/%2541", "http://example.com/%2541"),
    ("http://example.com/%%34%31", "http://example.com/%%341"),
    ("http://example.com/\"<>`{}^'", "http://example.com/%22%3C%3E%60%7B%7D%5E'"),
    ("http://example.com/[]|?'+[]|", "http://example.com/%5B%5D%7C?%27+%5B%5D%7C"),
    ("http://example.com/\ud800?\udfff", "http://example.com/%EF%BF%BD?%EF%BF%BD"),
    # dot segments
    ("http://example.com/a/./b/../c", "http://example.com/a/c"),
    ("http://example.com/../../a", "http://example.com/a"),
    ("http://example.com/a/..", "http://example.com/"),
    ("http://example.com/a/b/.", "http://example.com/a/b/"),
    ("http://example.com/a/%2e%2E/b", "http://example.com/b"),
    ("http://example.com/a//../b", "http://example.com/a/b"),
    ("http://example.com/...", "http://example.com/..."),
    ("http://example.com/.well-known/x", "http://example.com/.well-known/x"),
    # visits and campaigns
    ("http://example.com/a;jsessionid=1A2B", "http://example.com/a"),
    ("http://example.com/a;JSESSIONID=1/b;v=2?x", "http://example.com/a/b;v=2?x"),
    ("http://example.com/.;jsessionid=1/b", "http://example.com/b"),
    ("http://example.com/?PHPSESSID=1&a=2", "http://example.com/?a=2"),
    ("http://example.com/?a=2&utm_source=x&b=3&UTM_Medium=y", "http://example.com/?a=2&b=3"),
    ("http://example.com/?utm%5Fsource=x", "http://example.com/"),
    ("http://example.com/?gclid=x&fbclid=y", "http://example.com/"),
    *((f"http://example.com/?{name}={TOKEN}&a", "http://example.com/?a") for name in TOKEN_NAMES),
    *(
        (url, url)
        for name in TOKEN_NAMES
        for value in NO_TOKENS
        if (url := f"http://example.com/?{name}={value}")
    ),
    ("http://example.com/?a=utm_source", "http://example.com/?a=utm_source"),
    ("http://example.com/?a&&b=&", "http://example.com/?a&&b=&"),
]

RELATIVE = [
    ("/section/page-1.html", "http://example.com/section/page-1.html"),
    ("/section/?a=1", "http://example.com/section/?a=1"),
    ("/a?utm_source=x", "http://example.com/a"),
    ("other.html", "http://example.com/dir/other.html"),
    ("./other", "http://example.com/dir/other"),
    ("../up", "http://example.com/up"),
    ("..", "http://example.com/"),
    (".", "http://example.com/dir/"),
    ("", "http://example.com/dir/page.html?old=1"),
    ("#top", "http://example.com/dir/page.html?old=1"),
    ("?new=2", "http://example.com/dir/page.html?new=2"),
    ("?", "http://example.com/dir/page.html"),
    ("//other.org/x", "http://other.org/x"),
    ("\\\\other.org\\x", "http://other.org/x"),
    ("/\\other.org/x", "http://other.org/x"),
    ("///other.org/x", "http://other.org/x"),
    ("\\x", "http://example.com/x"),
    ("http:other", "http://example.com/dir/other"),
    ("http:/other", "http://example.com/other"),
    ("http:?q", "http://example.com/dir/page.html?q"),
    ("https:other.org/x", "https://other.org/x"),
    ("https://other.org", "https://other.org/"),
    ("a:b".replace(":", "%3A"), "http://example.com/dir/a%3Ab"),
    ("./a:b", "http://example.com/dir/a:b"),
    ("1:2", "http://example.com/dir/1:2"),
]

REFUSED = [
    ("", "syntax"),
    ("example.com/a", "syntax"),
    ("/a", "syntax"),
    ("http:", "host"),
    ("http://", "host"),
    ("http:///", "host"),
    ("http://?a", "host"),
    ("http://user@/a", "host"),
    ("http://:80/", "host"),
    ("http://./", "host"),
    ("http://a..b/", "host"),
    ("http://.a/", "host"),
    ("http://a../", "host"),
    ("http://a b/", "host"),
    ("http://a%20b/", "host"),
    ("http://a\x00b/", "host"),
    ("http://a%00b/", "host"),
    ("http://a<b/", "host"),
    ("http://a%2Fb/", "host"),
    ("http://a{b}/", "host"),
    ("http://" + "a" * 64 + ".com/", "host"),
    ("http://" + "a." * 127 + "com/", "host"),
    ("http://[::1", "host"),
    ("http://::1]/", "host"),
    ("http://[]/", "host"),
    ("http://[::g]/", "host"),
    ("http://[fe80::1%25eth0]/", "host"),
    ("http://[fe80::1%eth0]/", "host"),
    ("http://[::1]x/", "host"),
    ("http://256.1.1.1/", "host"),
    ("http://1.2.3.4.5/", "host"),
    ("http://4294967296/", "host"),
    ("http://0x100000000/", "host"),
    ("http://a.1/", "host"),
    ("http://1..2/", "host"),
    ("http://08.1/", "host"),
    ("http://" + "9" * 5000, "host"),
    ("http://example.com:99999/", "port"),
    ("http://example.com:0/", "port"),
    ("http://example.com:b/", "port"),
    ("http://example.com:-1/", "port"),
    ("http://example.com:80:80/", "port"),
    ("http://example.com:８０/", "port"),
    ("http://[::1]:99999/", "port"),
    ("http://example.com:" + "1" * 5000, "port"),
    ("http://xn--zz--/", "idn"),
    ("http://xn--/", "idn"),
    ("http://xn--a/", "idn"),
    ("http://xn--abc-/", "idn"),
    ("http://xn--99999999/", "idn"),
    ("http://xn--tešla/", "idn"),
    ("http://a.xn--te%C5%A1la.example/", "idn"),
    ("http://xn--BCHER-KVB.xn--ls8h\u0301/", "idn"),
    ("http://\u0301a.example/", "idn"),
    ("http://a\u200db.example/", "idn"),
    ("http://\ud800.example/", "idn"),
    ("http://\ufffd.example/", "idn"),
    ("http://" + "ü" * 300 + ".example/", "idn"),
    ("javascript:void(0)", "scheme"),
    (" JavaScript:alert(1)", "scheme"),
    ("java\nscript:alert(1)", "scheme"),
    ("mailto:a@b.c", "scheme"),
    ("tel:+1", "scheme"),
    ("data:text/html,hello", "scheme"),
    ("blob:http://example.com/1", "scheme"),
    ("file:///etc/passwd", "scheme"),
    ("ftp://example.com/", "scheme"),
    ("s3://bucket/key", "scheme"),
    ("localhost:8080/a", "scheme"),
    ("http://example.com/" + "a" * MAX_LENGTH, "length"),
    ("http://example.com/" + "é" * 700, "length"),
]


@pytest.mark.parametrize(("url", "expected"), ABSOLUTE)
def test_an_absolute_url_has_one_spelling(url: str, expected: str) -> None:
    assert str(normalise(url)) == expected
    assert str(normalise(url, Url("https://base.example", "/dir/"))) == expected


@pytest.mark.parametrize(("url", "expected"), RELATIVE)
def test_a_relative_url_is_resolved_as_a_browser_would(url: str, expected: str) -> None:
    assert str(normalise(url, BASE)) == expected


@pytest.mark.parametrize("expected", [row[1] for row in ABSOLUTE + RELATIVE])
def test_a_normal_url_is_left_as_it_is(expected: str) -> None:
    assert str(normalise(expected)) == expected


@pytest.mark.parametrize(("url", "reason"), REFUSED)
def test_an_unusable_url_is_refused_with_its_reason(url: str, reason: str) -> None:
    with pytest.raises(UrlError) as caught:
        normalise(url)
    assert caught.value.reason == reason
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


def test_a_url_of_exactly_the_maximum_length_is_accepted() -> None:
    url = "http://example.com/".ljust(MAX_LENGTH, "a")
    assert str(normalise(url)) == url


def test_the_fragment_does_not_count_towards_the_length() -> None:
    assert normalise("http://example.com/#" + "a" * MAX_LENGTH).path == "/"


def test_a_huge_href_is_refused_without_being_read() -> None:
    huge = "http://example.com/" + "%41é \\" * 10_000_000
    just_too_long = "http://example.com/" + "a" * MAX_LENGTH * 4
    assert refusing_takes_s(huge) < 50 * refusing_takes_s(just_too_long)


def refusing_takes_s(url: str) -> float:
    """A hundred times, of this process alone."""
    began_s = time.process_time()
    for _ in range(100):
        with pytest.raises(UrlError, match="more than 2083 characters"):
            normalise(url)
    return time.process_time() - began_s


def test_the_maximum_length_can_be_set() -> None:
    with pytest.raises(UrlError):
        normalise("http://example.com/abc", max_length=20)


def test_parameters_are_kept_on_request() -> None:
    url = "http://example.com/a;jsessionid=1?utm_source=x&sid=0123456789abcdef"
    assert str(normalise(url, drop=None)) == url


def test_the_parameters_to_drop_can_be_chosen() -> None:
    drop = param_pattern(("ref", "x_*"))
    url = "http://example.com/?ref=1&X_y=2&reference=3&utm_source=4"
    assert str(normalise(url, drop=drop)) == "http://example.com/?reference=3&utm_source=4"


def test_no_names_to_drop_drop_nothing() -> None:
    assert normalise("http://example.com/?a&", drop=param_pattern(())).path == "/?a&"


@pytest.mark.parametrize(
    ("encoding", "query"), [("cp1251", "%E6&%26%239749%3B"), ("utf-8", "%D0%B6&%E2%98%95")]
)
def test_a_query_is_escaped_in_the_encoding_of_its_page(encoding: str, query: str) -> None:
    assert normalise("/ж?ж&☕", BASE, encoding=encoding).path == f"/%D0%B6?{query}"


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("http://example.com", "example.com"),
        ("https://www.bbc.co.uk:8080", "bbc.co.uk"),
        ("http://a.b.example.com", "example.com"),
        ("http://alice.github.io", "alice.github.io"),
        ("http://www.xn--bcher-kva.de", "xn--bcher-kva.de"),
        ("http://co.uk", "co.uk"),
        ("http://a.b.internal", "b.internal"),
        ("http://localhost:8080", "localhost"),
        ("http://127.0.0.1:8080", "127.0.0.1"),
        ("http://[::1]:8080", "[::1]"),
        ("www.example.com", "example.com"),
    ],
)
def test_a_host_belongs_to_a_registrable_domain(host: str, domain: str) -> None:
    assert registrable_domain(host) == domain


# Fragments of which awkward URLs are made, so that Hypothesis meets them often.
PIECES = st.sampled_from(
    [
        *("http://", "https:", "//", "/", "\\", "..", ".", "%2e", "%", "%4", "%41", "%zz", "%ff"),
        *("?", "#", "&", "=", ";", ":", ":80", "@", "[", "]", "[::1]", "::", "0x7f", "127.1", "1"),
        *(
            "example.com",
            "EXAMPLE.",
            "xn--",
            "xn--bcher-kva",
            "bücher",
            "ß",
            "。",
            "\u200d",
            "\ud800",
        ),
        *(" ", "\t", "\n", "\0", "\x7f", "jsessionid=", "utm_source=", "sid=", "é", "'", '"', "{"),
    ]
)
ANY_CHARACTER = st.characters(exclude_categories=())
URLS = st.lists(PIECES | st.text(ANY_CHARACTER, max_size=4), max_size=12).map("".join)
HOSTED_URLS = URLS.map(lambda tail: "http://example.com/" + tail)


def attempt(url: str, base: Url | None) -> Url | None:
    try:
        return normalise(url, base)
    except UrlError:
        return None


@settings(max_examples=400, deadline=None)
@given(URLS | HOSTED_URLS | URLS.map(lambda tail: "http://" + tail), st.sampled_from([None, BASE]))
def test_whatever_the_input_the_result_is_normal_or_refused(url: str, base: Url | None) -> None:
    result = attempt(url, base)
    if result is None:
        return
    text = str(result)
    assert normalise(text) == normalise(text, BASE) == result
    assert text.isascii()
    assert text.isprintable()
    assert not set(text) & set(' \\#<>"')
    assert result.host == result.host.lower()
    assert result.path.startswith("/")
    assert "@" not in result.host
    assert len(text) <= MAX_LENGTH


@settings(max_examples=200, deadline=None)
@given(HOSTED_URLS)
def test_no_later_client_has_a_reason_to_rewrite_a_normal_url(url: str) -> None:
    result = attempt(url, None)
    assert result is None or safe_url_string(str(result)) == str(result)


@settings(max_examples=200, deadline=None)
@given(HOSTED_URLS)
def test_a_url_that_is_called_safe_is_sent_as_it_is(url: str) -> None:
    assert is_safe("http://a.example:8080/b/c.html?d=e%26")
    assert not is_safe(url) or safe_url_string(url) == url


@settings(max_examples=200, deadline=None)
@given(st.text(ANY_CHARACTER, max_size=30))
def test_userinfo_and_fragment_never_change_the_result(text: str) -> None:
    plain = normalise("http://example.com/a")
    assert normalise("http://example.com/a#" + text) == plain
    userinfo = "".join(char for char in text if char not in "/\\?#")
    assert normalise(f"http://{userinfo}@example.com/a") == plain


@pytest.mark.parametrize(
    ("header", "url"),
    [
        ("/café?q=ü".encode(), "http://example.com/caf%C3%A9?q=%C3%BC"),
        ("/café".encode("latin-1"), "http://example.com/caf%E9"),
        ("http://bücher.test/ü".encode(), "http://xn--bcher-kva.test/%C3%BC"),
        (b"/caf%C3%A9 %zz", "http://example.com/caf%C3%A9%20%zz"),
        (b"", str(BASE)),
        (None, str(BASE)),
    ],
)
def test_a_location_is_asked_for_byte_by_byte_as_the_server_sent_it(
    header: bytes | None, url: str
) -> None:
    assert str(normalise(location(header), BASE)) == url


def documented() -> list[tuple[str, str]]:
    """What docs/urls.md says: links, and what becomes of them."""
    page = Path(__file__).parents[2].joinpath("docs", "urls.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(http.*?)` \| (?:refused \()?`(.*?)`\)? \|", page, re.MULTILINE)
    return [(link.replace("\\|", "|"), becomes) for link, becomes in rows]


@pytest.mark.parametrize(("link", "becomes"), documented())
def test_where_our_urls_differ_from_the_standard_is_as_documented(link: str, becomes: str) -> None:
    if becomes.startswith("http"):
        assert str(normalise(link)) == becomes
    else:
        with pytest.raises(UrlError) as caught:
            normalise(link)
        assert caught.value.reason == becomes


def test_all_of_the_documented_differences_are_tried() -> None:
    assert len(documented()) == 12
