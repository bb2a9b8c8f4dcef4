"""robots.txt: what it means, by a plain reference; and that nothing in it raises or takes long."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from crawlproj.politeness.robots import (
    MOST_BYTES,
    Verdict,
    directives,
    for_another_host,
    pack,
    parse,
    unpack,
)
from tests.fuzz.harness import fuzzed, linear_time

AGENT = "crawlproj/0.1 (+https://example.com/bot)"
RULES = st.lists(st.tuples(st.booleans(), st.text("ab/*$", max_size=8)), max_size=8)
PATHS = st.text("ab/$", max_size=12).map("/".__add__)
# fmt: off
LINES = st.sampled_from([
    "User-agent: *", "User-agent: crawlproj", "user agent crawlproj", "User-agent: other",
    "Disallow: /", "Disallow:", "Allow: /a", "disalow: /b", "Disallow: /*a*b$", "Allow /x",
    "Crawl-delay: 5", "Crawl-delay: 1e9", "Crawl-delay: -1", "Crawl-delay: nan", "Sitemap: /s.xml",
    "# comment", "Disallow: /%zz%2", "Disallow: /\u00e9", "\ufeff", "\0", "Host: x", ":", "*", "",
])
# fmt: on
FILES = st.tuples(
    st.lists(LINES | st.text(max_size=20), max_size=15), st.sampled_from(["\n", "\r\n", "\r"])
).map(lambda parts: parts[1].join(parts[0]).encode("utf-8", "surrogatepass"))


def reference(rules: list[tuple[bool, str]], path: str) -> bool:
    """RFC 9309, 2.2.2, in its own words: the most octets, and of equals the one that allows."""
    best = (-1, True)
    for allow, pattern in rules:
        if pattern.startswith(("/", "*")):
            body = pattern.removesuffix("$")
            middle = "".join(".*" if char == "*" else re.escape(char) for char in body)
            end = r"\Z" if pattern.endswith("$") else ""
            # A "$" in a path, or within a pattern, is compared as its escape: one octet, as here.
            if re.match(middle + end, path):
                escapes = 2 * body.count("$")
                best = max(best, (len(pattern) + escapes, allow))
    return best[1]


@fuzzed(RULES, PATHS, examples=600)
def test_rules_mean_what_the_rfc_says(rules: list[tuple[bool, str]], path: str) -> None:
    lines = [f"{'Allow' if allow else 'Disallow'}: {pattern}" for allow, pattern in rules]
    found = parse("\n".join(["User-agent: *", *lines]).encode(), AGENT)
    assert found.allows(path) is reference(rules, path)
    assert found.allows("/robots.txt")


@fuzzed(FILES | st.binary(max_size=400), st.text(max_size=30), st.text(max_size=40), examples=400)
def test_any_file_is_read_by_anybody(body: bytes, agent: str, url: str) -> None:
    for name in (AGENT, agent):
        rules = parse(body, name)
        assert rules.allows(url) in (True, False)
        assert rules.delay_s is None or 0 <= rules.delay_s < float("inf")
        assert len(rules.sitemaps) <= len(body)
        assert rules.allows(url) is parse(body, name).allows(url)


@fuzzed(FILES, st.integers(0, 999), st.sampled_from(Verdict), st.booleans(), examples=200)
def test_what_is_kept_for_others_says_the_same(
    body: bytes, status: int, verdict: Verdict, redirected: bool
) -> None:
    packed = pack(status, verdict, body)
    stored = unpack(for_another_host(packed) if redirected else packed)
    assert stored is not None
    assert (stored.status, stored.verdict, stored.redirected) == (status, verdict, redirected)
    if verdict is Verdict.RULES:
        assert stored.rules(AGENT).delay_s == parse(body, AGENT).delay_s


@fuzzed(st.binary(max_size=300), st.integers(0, 40), examples=300)
def test_a_damaged_record_is_none_or_bounded(noise: bytes, place: int) -> None:
    good = pack(200, Verdict.RULES, b"User-agent: *\nDisallow: /a")
    for packed in (noise, good[:place] + noise + good[place:], good[:place] + noise):
        stored = unpack(packed)
        assert stored is None or len(stored.body) <= MOST_BYTES


@fuzzed(
    st.text("a*$/%b", min_size=1, max_size=6), st.text("ab/%", min_size=1, max_size=4), examples=15
)
def test_long_patterns_on_long_paths_cost_linear_time(piece: str, path: str) -> None:
    pattern = "Disallow: /" + piece * (100_000 // len(piece))
    body = "\n".join(["User-agent: *", pattern, pattern + "$", "Allow: /" + piece * 50]).encode()
    with linear_time():
        parse(body, AGENT).allows("/" + path * (2_000 // len(path)))


@fuzzed(st.lists(st.text(max_size=60) | st.binary(max_size=60), max_size=5), examples=200)
def test_any_header_is_a_set_of_words(values: list[str | bytes]) -> None:
    assert all(re.fullmatch(r"[a-z][a-z\-]*", word) for word in directives(values, AGENT))
