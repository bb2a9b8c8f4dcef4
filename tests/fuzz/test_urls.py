"""URL normalisation: one spelling, the right host, bounded output, linear time."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

import yarl
from hypothesis import assume
from hypothesis import strategies as st

from crawlproj.discover.url_shapes import looks_like_trap
from crawlproj.frontier.records import key_of_url
from crawlproj.urls import MAX_LENGTH, Url, UrlError, normalise, registrable_domain
from tests.fuzz.harness import fuzzed, linear_time

BASE = normalise("http://example.com/a/b/c?q")
# fmt: off
PIECES = st.sampled_from([
    "http://", "HTTPS:", "//", "/", "\\", "..", ".", "%2e", "%2E%2e", "%", "%4", "%41", "%2f",
    "%252f", "%zz", "%ff", "%00", "?", "#", "&", "=", ";", ":", ":80", ":443", ":0080", ":99999",
    "@", "user:pw@", "[", "]", "[::1]", "[::ffff:1.2.3.4]", "::", "0x7f", "127.1", "1", "017",
    "4294967295", "example.com", "EXAMPLE.", "localhost", "xn--", "xn--bcher-kva", "bücher", "ß",
    "。", "．", "\u200d", "\u00ad", "\ud800", "\udfff", "\ufeff", " ", "\t", "\n", "\r", "\0",
    "\x7f", "jsessionid=", ";jsessionid=0123456789abcdef", "utm_source=", "sid=", "é", "'", '"',
    "{", "}", "|", "^", "`", "<", ">", "a/" * 12, "~", "*", "+", "javascript:", "data:", "http:",
])
# fmt: on
ANY_CHARACTER = st.characters(exclude_categories=())
TAILS = st.lists(PIECES | st.text(ANY_CHARACTER, max_size=4), max_size=12).map("".join)
TEXTS = TAILS | TAILS.map("http://".__add__) | TAILS.map("http://example.com/".__add__)
ENCODINGS = st.sampled_from(["utf-8", "cp1252", "cp1251", "gb18030", "iso2022_jp", "big5hkscs"])


def attempt(text: str, base: Url | None = None, encoding: str = "utf-8") -> Url | None:
    try:
        return normalise(text, base, encoding=encoding)
    except UrlError as error:
        assert "\n" not in str(error) and len(str(error)) < 1000
        return None


@fuzzed(TEXTS, st.sampled_from([None, BASE]), ENCODINGS, examples=500)
def test_a_url_is_normal_once_and_for_all(text: str, base: Url | None, encoding: str) -> None:
    found = attempt(text, base, encoding)
    assume(found is not None)
    assert found is not None
    written = str(found)
    assert normalise(written) == normalise(written, BASE) == found
    assert written.isascii() and written.isprintable() and not set(written) & set(' \\#<>"')
    assert len(written) <= MAX_LENGTH
    assert key_of_url(written) == (found.host, written)


@fuzzed(TEXTS, examples=300)
def test_who_is_judged_is_who_is_asked(text: str) -> None:
    """What our frontier paces and our policy judges is what the client connects to."""
    found = attempt(text)
    assume(found is not None)
    url = yarl.URL(str(found), encoded=True)
    assert found is not None and url.raw_host is not None
    host = f"[{url.raw_host}]" if ":" in url.raw_host else url.raw_host
    port = "" if url.is_default_port() else f":{url.port}"
    assert f"{url.scheme}://{host}{port}" == found.host
    assert url.raw_path_qs == found.path and url.user is None and url.password is None
    assert urlsplit(str(found)).netloc == found.host.partition("://")[2]


SEGMENTS = st.sampled_from(["a", "b", "..", ".", "c.html", "x-y", "~z"])
REFERENCES = st.builds(
    lambda start, parts, query: start + "/".join(parts) + query,
    st.sampled_from(["", "/", "http://other.org/", "//other.org/"]),
    st.lists(SEGMENTS, min_size=1, max_size=6),
    st.sampled_from(["", "?q=1", "?x=/../y"]),
)


@fuzzed(REFERENCES, examples=300)
def test_plain_references_are_resolved_as_the_standard_library_does(reference: str) -> None:
    assert attempt(reference, BASE) == attempt(urljoin(str(BASE), reference))


@fuzzed(TEXTS, examples=300)
def test_case_port_dot_userinfo_and_fragment_make_no_other_host(text: str) -> None:
    path = str(attempt("http://example.com/" + text) or "http://example.com/").partition(".com")[2]
    plain = normalise("http://example.com" + path)
    for spelling in (
        "HTTP://EXAMPLE.COM",
        "http://example.com:80",
        "http://example.com.",
        "http://u:p@example.com",
        "http:\\\\example.com",
        " \thttp://exam\nple.com",
    ):
        assert normalise(f"{spelling}{path}") == plain
    assert normalise(f"http://example.com{path}#{text}") == plain


@fuzzed(TEXTS, examples=200)
def test_domains_and_traps_can_be_asked_of_every_url(text: str) -> None:
    found = attempt(text)
    assume(found is not None)
    assert found is not None
    name = found.host.partition("://")[2]
    assert registrable_domain(found.host).strip("[]") in name
    assert looks_like_trap(found.path) in (None, "trap-depth", "trap-repeat", "trap-params")


@fuzzed(st.lists(PIECES, min_size=1, max_size=4).map("".join), examples=20)
def test_a_long_url_costs_linear_time(piece: str) -> None:
    with linear_time():
        for start in ("http://", "http://example.com/", "http://example.com/?", ""):
            long = start + piece * (100_000 // len(piece))
            attempt(long, BASE)
            try:
                normalise(long, BASE, max_length=10**7)
            except UrlError:
                continue
