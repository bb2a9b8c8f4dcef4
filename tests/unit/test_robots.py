"""What may be fetched by RFC 9309, whatever a host serves in the place of rules."""

from __future__ import annotations

import base64
import gc
import os
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isal import isal_zlib
from protego import Protego

from crawlproj.politeness.robot_rules import MOST_STARRED_OCTETS, AllAtOnce, OneByOne, RobotsRules
from crawlproj.politeness.robots import (
    MOST_BYTES,
    MOST_PACKED_BYTES,
    MOST_REDIRECTS,
    MOST_SITEMAPS,
    Stored,
    Verdict,
    digest,
    directives,
    for_another_host,
    is_longer,
    judge,
    pack,
    parse,
    product_token,
    unpack,
)

FILES = Path(__file__).parent / "data" / "robots"
AGENT = "crawlproj"

# RFC 9309, 5.1: a simple example
RFC_SIMPLE = """
User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot
"""

# RFC 9309, 2.2.1: groups of one name are merged
RFC_MERGED = """
user-agent: ExampleBot
disallow: /foo
disallow: /bar

user-agent: ExampleBot
disallow: /baz
"""

# RFC 9309, 5.2: the longest match
RFC_LONGEST = """
User-Agent: foobot
Allow: /example/page/
Disallow: /example/page/disallowed.gif
"""


def for_all(*lines: str) -> str:
    return "\n".join(("User-agent: *", *lines))


RFC = [
    (RFC_SIMPLE, "foobot", "/", False),
    (RFC_SIMPLE, "foobot", "/publications/", False),
    (RFC_SIMPLE, "foobot", "/example/", False),
    (RFC_SIMPLE, "foobot", "/example/page.html", True),
    (RFC_SIMPLE, "foobot", "/example/allowed.gif", True),
    (RFC_SIMPLE, "foobot", "/robots.txt", True),
    (RFC_SIMPLE, "barbot", "/example/page.html", False),
    (RFC_SIMPLE, "barbot", "/example/page.htm", True),
    (RFC_SIMPLE, "bazbot", "/example/page.html", False),
    (RFC_SIMPLE, "bazbot", "/x.gif", True),
    (RFC_SIMPLE, "quxbot", "/example/page.html", True),
    (RFC_SIMPLE, "quxbot", "/x.gif", True),
    (RFC_SIMPLE, "otherbot", "/x.gif", False),
    (RFC_SIMPLE, "otherbot", "/publications/x.gif", True),
    (RFC_SIMPLE, "otherbot", "/x.gif?y", True),
    (RFC_SIMPLE, "otherbot", "/example/x", False),
    (RFC_SIMPLE, "otherbot", "/publications/", True),
    (RFC_MERGED, "ExampleBot", "/foo", False),
    (RFC_MERGED, "ExampleBot", "/bar", False),
    (RFC_MERGED, "ExampleBot", "/baz", False),
    (RFC_MERGED, "ExampleBot", "/qux", True),
    (RFC_LONGEST, "foobot", "/example/page/", True),
    (RFC_LONGEST, "foobot", "/example/page/x.gif", True),
    (RFC_LONGEST, "foobot", "/example/page/disallowed.gif", False),
    # 2.2.3: special characters
    (for_all("Disallow: /path/file-with-a-%2A.html"), "x", "/path/file-with-a-*.html", False),
    (for_all("Disallow: /path/file-with-a-%2A.html"), "x", "/path/file-with-a-x.html", True),
    (for_all("Disallow: /path/foo-%24"), "x", "/path/foo-$", False),
    (for_all("Disallow: /path/foo-%24"), "x", "/path/foo-", True),
    (for_all("Allow: /this/path/exactly$", "Disallow: /"), "x", "/this/path/exactly", True),
    (for_all("Allow: /this/path/exactly$", "Disallow: /"), "x", "/this/path/exactly/not", False),
    (for_all("Allow: /this/*/exactly", "Disallow: /"), "x", "/this/path/exactly", True),
    # 2.2.4: other records are no part of a group
    ("User-agent: x\nSitemap: http://e.com/s\nUser-agent: y\nDisallow: /", "x", "/a", False),
    ("User-agent: x\nNoindex: /b\nUser-agent: y\nDisallow: /", "x", "/a", False),
]

# Figure 4 of RFC 9309, 2.2.2: a path in the file, and one that it matches
RFC_ENCODINGS = [
    ("/foo/bar?baz=quz", "/foo/bar?baz=quz"),
    ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar"),
    ("/foo/bar/\u30c4", "/foo/bar/%E3%83%84"),
    ("/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84"),
    ("/foo/bar/%62%61%7A", "/foo/bar/baz"),
]

ENCODINGS = [
    ("/foo%20bar", "/foo bar", True),
    ("/foo bar", "/foo%20bar", True),
    ("/foo+bar", "/foo%20bar", False),
    ("/caf\u00e9", "/caf%c3%a9", True),
    ("/caf%c3%a9", "/caf\u00e9", True),
    ("/caf%C3%A9", "/caf%c3%a9", True),
    ("/caf%E9", "/caf\u00e9", False),
    ("/\u65e5\u672c", "/%E6%97%A5%E6%9C%AC/x", True),
    ("/%7Ejoe/", "/~joe/", True),
    ("/~joe/", "/%7ejoe/", True),
    ("/a%2Fb", "/a/b", False),
    ("/a%2fb", "/a%2Fb", True),
    ("/a,b;c", "/a%2Cb%3Bc", True),
    ("/a%3Db", "/a=b", True),
    ("/?q=%26", "/?q=&", True),
    ("/a%3Fb", "/a?b", False),
    ("/a?b", "/a%3Fb", False),
    ("/a%23b", "/a%23b", True),
    ("/100%", "/100%25", True),
    ("/100%", "/100%", True),
    ("/%zz", "/%zz/x", True),
    ("/go?to=/x", "/go?to=%2Fx", True),
    ("/go?to=%2Fx", "/go?to=/x", True),
    ("/*%2F", "/go?to=%2Fx", True),
    ("/*/x", "/go?to=/x", True),
    ("/go?to=/x", "/go%3Fto=/x", False),
]

# As Google documents how it interprets the specification
GOOGLE_MATCHES = [
    ("/", "/anything", True),
    ("/*", "/anything", True),
    ("/fish", "/fish", True),
    ("/fish", "/fish.html", True),
    ("/fish", "/fish/salmon.html", True),
    ("/fish", "/fishheads", True),
    ("/fish", "/fishheads/yummy.html", True),
    ("/fish", "/fish.php?id=anything", True),
    ("/fish", "/Fish.asp", False),
    ("/fish", "/catfish", False),
    ("/fish", "/?id=fish", False),
    ("/fish", "/desert/fish", False),
    ("/fish*", "/fish", True),
    ("/fish*", "/fishheads/yummy.html", True),
    ("/fish*", "/catfish", False),
    ("/fish/", "/fish/", True),
    ("/fish/", "/fish/?id=anything", True),
    ("/fish/", "/fish/salmon.htm", True),
    ("/fish/", "/fish", False),
    ("/fish/", "/fish.html", False),
    ("/fish/", "/animals/fish/", False),
    ("/*.php", "/index.php", True),
    ("/*.php", "/filename.php", True),
    ("/*.php", "/folder/filename.php?parameters", True),
    ("/*.php", "/folder/any.php.file.html", True),
    ("/*.php", "/filename.php/", True),
    ("/*.php", "/", False),
    ("/*.php", "/windows.PHP", False),
    ("/*.php$", "/filename.php", True),
    ("/*.php$", "/folder/filename.php", True),
    ("/*.php$", "/filename.php?parameters", False),
    ("/*.php$", "/filename.php/", False),
    ("/*.php$", "/filename.php5", False),
    ("/*.php$", "/windows.PHP", False),
    ("/fish*.php", "/fish.php", True),
    ("/fish*.php", "/fishheads/catfish.php?parameters", True),
    ("/fish*.php", "/Fish.PHP", False),
]

MATCHES = [
    ("*", "/", True),
    ("*x", "/ax", True),
    ("*x$", "/xax", True),
    ("*x$", "/xa", False),
    ("/*a*a*b$", "/aab", True),
    ("/*a*a*b$", "/ab", False),
    ("/*ab*ab$", "/ab", False),
    ("/*ab*ab$", "/abab", True),
    ("/a**b", "/axb", True),
    ("/$", "/", True),
    ("/$", "/x", False),
    ("/a$b", "/a$b", True),
    ("/a$b", "/a", False),
    ("/x$", "/x$", False),
    ("fish", "/fish", False),
    ("$", "/", False),
    ("http://example.com/fish", "/fish", False),
    ("/index.html", "/", False),
    ("//", "//", True),
    ("//", "/", False),
]

GOOGLE_PRECEDENCE = [
    (for_all("allow: /p", "disallow: /"), AGENT, "/page", True),
    (for_all("allow: /folder", "disallow: /folder"), AGENT, "/folder/page", True),
    (for_all("disallow: /folder", "allow: /folder"), AGENT, "/folder/page", True),
    (for_all("allow: /page", "disallow: /*.htm"), AGENT, "/page.htm", False),
    (for_all("allow: /page", "disallow: /*.ph"), AGENT, "/page.php5", True),
    (for_all("allow: /$", "disallow: /"), AGENT, "/", True),
    (for_all("allow: /$", "disallow: /"), AGENT, "/page.htm", False),
    (for_all("Allow: /a?b", "Disallow: /a*bc"), AGENT, "/a?bc", False),
    (for_all("Disallow: /a", "Allow: /a/b", "Disallow: /a/b/c"), AGENT, "/a/b/x", True),
    (for_all("Disallow: /a", "Allow: /a/b", "Disallow: /a/b/c"), AGENT, "/a/b/c", False),
    (for_all("Allow: /index.html", "Disallow: /"), AGENT, "/", False),
    (for_all("Disallow:"), AGENT, "/x", True),
    (for_all("Disallow: /x", "Allow:"), AGENT, "/x", False),
    (for_all("Disallow: /"), AGENT, "/robots.txt", True),
    (for_all("Disallow: /robots.txt"), AGENT, "/robots.txt", True),
    (for_all("Disallow: /"), AGENT, "/a/robots.txt", False),
]

ONE = "User-agent: {}\nDisallow: /"
AGENTS = [
    # the name in the file, the crawler, whether it is meant
    ("crawlproj", "crawlproj", True),
    ("CrawlProj", "crawlproj/1.0 (+https://example.com/bot)", True),
    ("crawlproj", "CRAWLPROJ/1.0", True),
    ("crawlproj/1.0", "crawlproj/2.0", True),
    ("crawlproj*", "crawlproj", True),
    ("crawlproj bot", "crawlproj", True),
    ("crawl", "crawlproj", False),
    ("proj", "crawlproj", False),
    ("crawlproj2", "crawlproj", False),
    ("crawlproj-news", "crawlproj", False),
    ("crawlproj", "crawlproj-news", False),
    ("https", "crawlproj/1.0 (+https://example.com/bot)", False),
    ("*", "crawlproj", True),
    ("* # all", "crawlproj", True),
    ("* bots", "crawlproj", True),
    ("*bot", "crawlproj", False),
    ("", "crawlproj", False),
    ("*", "", True),
    ("ExampleBot", "Mozilla/5.0 (compatible; ExampleBot/0.1; https://example.com/bot)", True),
    ("Mozilla", "Mozilla/5.0 (compatible; ExampleBot/0.1; https://example.com/bot)", False),
    ("Mozilla/5.0 (compatible; ExampleBot/0.1)", "ExampleBot", True),
]

GROUPS = [
    # the group that names us, wherever it stands, and that of all others only without it
    ("User-agent: *\nDisallow: /a\nUser-agent: crawlproj\nDisallow: /b", "/a", True),
    ("User-agent: *\nDisallow: /a\nUser-agent: crawlproj\nDisallow: /b", "/b", False),
    ("User-agent: crawlproj\nDisallow: /b\nUser-agent: *\nDisallow: /a", "/a", True),
    ("User-agent: crawlproj\n\nUser-agent: *\nDisallow: /a", "/a", False),
    ("User-agent: crawlproj\nDisallow:\nUser-agent: *\nDisallow: /", "/a", True),
    ("User-agent: *\nCrawl-delay: 1\nUser-agent: other\nDisallow: /", "/a", True),
    ("User-agent: crawlproj\nUser-agent: other\nDisallow: /", "/a", False),
    ("User-agent: other\nUser-agent: crawlproj\nDisallow: /", "/a", False),
    ("User-agent: other\nDisallow: /", "/a", True),
    ("User-agent: crawlproj\nDisallow: /a\nUser-agent:\nDisallow: /b", "/b", True),
    ("Disallow: /", "/a", True),
    ("Disallow: /\nUser-agent: *\nDisallow: /a", "/b", True),
    ("User-agent: *\nDisallow: /a\n\n\nDisallow: /b", "/b", False),
    ("User-agent: *\n\n# a remark\n\nDisallow: /b", "/b", False),
    ("User-agent: *\nDisallow: /a\nUser-agent: *\nDisallow: /b", "/a", False),
    ("User-agent: *\nDisallow: /a\nHost: example.com\nDisallow: /b", "/b", False),
    ("", "/a", True),
]


def rules_of(name: str) -> RobotsRules:
    return parse((FILES / name).read_bytes(), AGENT)


@pytest.mark.parametrize(("rules", "agent", "path", "allowed"), RFC + GOOGLE_PRECEDENCE)
def test_the_most_specific_rule_of_the_right_group_decides(
    rules: str, agent: str, path: str, allowed: bool
) -> None:
    assert parse(rules.encode(), agent).allows(path) is allowed


@pytest.mark.parametrize(("pattern", "path", "matched"), GOOGLE_MATCHES + MATCHES + ENCODINGS)
def test_a_pattern_matches_octets_whatever_their_spelling(
    pattern: str, path: str, matched: bool
) -> None:
    rules = parse(for_all(f"Disallow: {pattern}").encode(), AGENT)
    assert rules.allows(path) is not matched


@pytest.mark.parametrize(("pattern", "path"), RFC_ENCODINGS)
def test_the_encodings_of_the_rfc_match_each_other(pattern: str, path: str) -> None:
    assert not parse(for_all(f"Disallow: {pattern}").encode(), AGENT).allows(path)
    assert not parse(for_all(f"Disallow: {path}").encode(), AGENT).allows(pattern)


@pytest.mark.parametrize(("named", "agent", "meant"), AGENTS)
def test_a_group_is_found_by_the_whole_product_token(named: str, agent: str, meant: bool) -> None:
    assert parse(ONE.format(named).encode(), agent).allows("/a") is not meant


@pytest.mark.parametrize(("rules", "path", "allowed"), GROUPS)
def test_groups_are_merged_and_the_named_one_comes_first(
    rules: str, path: str, allowed: bool
) -> None:
    assert parse(rules.encode(), AGENT).allows(path) is allowed


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://example.com/a", False),
        ("https://example.com:8443/a/b#c", False),
        ("http://example.com", True),
        ("http://example.com?x=1", False),
        ("http://example.com/#/a", True),
        ("HTTP://EXAMPLE.COM/a", False),
        ("http://example.com/robots.txt", True),
        ("http://[::1/a", False),
        ("a", False),
        ("", True),
        ("/\ud800", True),
    ],
)
def test_a_url_is_judged_by_its_path_and_query(url: str, allowed: bool) -> None:
    assert parse(for_all("Disallow: /a", "Disallow: /?").encode(), AGENT).allows(url) is allowed


@pytest.mark.parametrize(
    ("user_agent", "token"),
    [
        ("crawlproj/1.0", "crawlproj"),
        (" Crawl_Proj-x ", "crawl_proj-x"),
        ("Mozilla/5.0 (compatible; GPTBot/1.1; +https://openai.com/gptbot)", "gptbot"),
        ("Mozilla/5.0 (X11; Linux x86_64)", "mozilla"),
        ("", ""),
        ("(+https://example.com)", ""),
    ],
)
def test_the_product_token_is_the_name_without_its_version(user_agent: str, token: str) -> None:
    assert product_token(user_agent) == token


@pytest.mark.parametrize(
    ("name", "denied", "allowed"),
    [
        ("blog.txt", ["/wp-admin/x", "/a/feed/", "/?s=x"], ["/wp-admin/admin-ajax.php", "/a/feed"]),
        (
            "shop.txt",
            ["/cart/1", "/l?a=1&sort=x", "/l?a&session=1", "/a.pdf"],
            ["/l?page=2", "/a.pdf?x"],
        ),
        ("wiki.txt", ["/w/x", "/wiki/Spécial:X", "/wiki/Служебная:X"], ["/wiki/A", "/w/load.php?"]),
        ("groups.txt", ["/first", "/second"], ["/for-all", "/"]),
        ("closed.txt", ["/x", "/?"], ["/", "/about"]),
        ("typos.txt", ["/one", "/two", "/three", "/four"], ["/one/but", "/five"]),
        ("bom.txt", ["/private"], ["/"]),
        ("cr_only.txt", ["/private"], ["/"]),
        ("nul.txt", ["/private"], ["/"]),
        ("utf16.txt", ["/приватно"], ["/"]),
        ("utf16_unmarked.txt", ["/private"], ["/"]),
        ("latin1.txt", ["/priv%E9"], ["/", "/x", "/privé"]),
        ("page.html", [], ["/", "/x"]),
        ("pasted.txt", ["/private"], ["/"]),
    ],
)
def test_files_as_they_are_found_on_servers_are_read(
    name: str, denied: list[str], allowed: list[str]
) -> None:
    rules = rules_of(name)
    assert [path for path in denied if rules.allows(path)] == []
    assert [path for path in allowed if not rules.allows(path)] == []


def test_sitemaps_belong_to_the_file_and_not_to_a_group() -> None:
    sitemaps = rules_of("blog.txt").sitemaps
    assert sitemaps == ["https://blog.example/sitemap.xml", "https://blog.example/news.xml"]
    assert rules_of("groups.txt").sitemaps == ["/relative.xml"]
    assert rules_of("typos.txt").sitemaps == ["http://example.com/map.xml"]
    twice = "Sitemap: http://é/\nSitemap:\nsitemap http://é/".encode()
    assert parse(twice, AGENT).sitemaps == ["http://é/"]


@pytest.mark.parametrize(
    ("lines", "delay_s"),
    [
        ([], None),
        (["Crawl-delay: 2.5"], 2.5),
        (["crawl delay 7"], 7.0),
        (["Crawl-delay: 0"], 0.0),
        (["Crawl-delay: 1", "Crawl-delay: 5", "Crawl-delay: 3"], 5.0),
        (["Crawl-delay: 0", "Crawl-delay: x"], 0.0),
        (["Crawl-delay: 1e9"], 1e9),
        (["Crawl-delay: -1"], None),
        (["Crawl-delay: nan"], None),
        (["Crawl-delay: inf"], None),
        (["Crawl-delay: 1e999"], None),
        (["Crawl-delay:"], None),
        (["Crawl-delay: soon"], None),
    ],
)
def test_a_crawl_delay_is_a_number_of_seconds(lines: list[str], delay_s: float | None) -> None:
    assert parse(for_all(*lines).encode(), AGENT).delay_s == delay_s


def test_the_crawl_delay_of_another_group_is_not_ours() -> None:
    assert rules_of("groups.txt").delay_s == 4
    assert parse((FILES / "shop.txt").read_bytes(), "BadBot").delay_s is None


@pytest.mark.parametrize("line_end", [b"\n", b"\r", b"\r\n"])
def test_a_long_file_ends_with_its_last_whole_line(line_end: bytes) -> None:
    head = b"User-agent: *" + line_end + b"Disallow: /a" + line_end
    last = b"Allow: /a/whole"
    padding = b"#" * (MOST_BYTES - len(head) - len(last) - 1) + line_end[:1]
    whole = head + padding + last
    assert len(whole) == MOST_BYTES
    assert parse(whole, AGENT).allows("/a/whole")
    assert parse(whole + line_end + b"Allow: /a", AGENT).allows("/a/whole")
    assert not parse(whole + line_end + b"Allow: /a", AGENT).allows("/a/late")
    assert not parse(whole + b"/but/longer", AGENT).allows("/a/whole")
    assert parse(b"Disallow: /" * MOST_BYTES, AGENT).allows("/")


def calls(path: str, pattern: str) -> int:
    """Calls of functions, those written in C included, that one question takes."""
    rules = parse(for_all(f"Disallow: {pattern}").encode(), AGENT)
    return calls_of(lambda: rules.allows(path))


def calls_of(question: Callable[[], object]) -> int:
    count = 0

    def note(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        question()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("tail", ["b$", "b", "$", "a$", ""])
def test_a_pattern_full_of_stars_takes_two_steps_a_star(tail: str) -> None:
    path = "/" + "a" * 2000 + "b" + "a" * 20
    few, many = (calls(path, "/" + "*a" * stars + "*" + tail) for stars in (100, 900))
    assert many - few <= 2 * 800  # each is looked for once and measured once


def test_a_file_of_nothing_but_rules_is_answered_without_trying_each_prefix() -> None:
    lines = [f"Disallow: /{number}" for number in range(20_000)]
    assert not parse(for_all(*lines).encode(), AGENT).allows("/19999/x")
    assert parse(for_all(*lines).encode(), AGENT).allows("/x")


starred = st.lists(
    st.tuples(st.text("ab/*$", min_size=1, max_size=12), st.booleans()), min_size=1, max_size=30
)


@given(starred, st.lists(st.text("ab/$", max_size=12), min_size=1, max_size=5))
def test_rules_mean_the_same_whether_they_are_tried_one_by_one_or_all_at_once(
    patterns: list[tuple[str, bool]], paths: list[str]
) -> None:
    rules = RobotsRules().compile({("/" + pattern, allow) for pattern, allow in patterns})
    assert rules is not None
    one_by_one, all_at_once = OneByOne(rules), AllAtOnce(rules)
    for path in paths:
        assert all_at_once.most_specific("/" + path) == one_by_one.most_specific("/" + path)


def many_stars(octets: int) -> bytes:
    """Rules with stars of so many octets, no two alike, all of which a path of letters begins."""
    lines = (f"Disallow: /*a*{number:05}*b" for number in range(octets // 11))
    return for_all(*lines).encode()


def test_what_a_url_costs_does_not_grow_with_the_number_of_stars() -> None:
    path = "/" + "ab" * 500
    few, many = (parse(many_stars(size), AGENT) for size in (2000, MOST_STARRED_OCTETS - 100))
    assert calls_of(lambda: few.allows(path)) == calls_of(lambda: many.allows(path))
    assert many.allows(path)
    assert not many.allows("/a00017b")
    assert many.size_bytes < 1_000_000


def test_a_file_of_more_stars_than_that_allows_nothing_and_says_so() -> None:
    body = many_stars(MOST_STARRED_OCTETS + 1000) + b"\nCrawl-delay: 3\nSitemap: /map"
    rules = parse(body, AGENT)
    assert (rules.is_too_much, rules.delay_s, rules.sitemaps) == (True, 3, ["/map"])
    assert not rules.allows("/")
    assert rules.allows("/robots.txt")
    assert parse(b"User-agent: other\n" + body[13:], AGENT).allows("/a00017b")
    told, packed = digest(200, body, AGENT)
    stored = unpack(packed)
    assert stored is not None
    assert stored.body == b"User-agent: *\nCrawl-delay: 3.0\nDisallow: /"
    assert (told.is_too_much, told.allows("/"), told.delay_s) == (True, False, 3)


def test_rules_that_cannot_be_kept_for_others_allow_nothing_either() -> None:
    noise = b"\n".join(b"Disallow: /" + base64.b64encode(os.urandom(180)) for _ in range(2000))
    rules, packed = digest(200, b"User-agent: *\n" + noise, AGENT)
    assert rules.is_too_much
    assert len(packed) < 100
    assert not rules.allows("/")


def test_a_long_file_of_human_making_is_kept() -> None:
    lines = (f"Disallow: /catalogue/shoes/{n}/reviews" for n in range(MOST_BYTES // 40))
    rules, packed = digest(200, for_all(*lines).encode(), AGENT)
    assert not rules.is_too_much
    assert len(packed) < MOST_PACKED_BYTES
    assert not rules.allows("/catalogue/shoes/9999/reviews/1")
    assert rules.allows("/catalogue/shoes/9999")


@given(st.integers(0, 5), st.binary(max_size=200), st.text("ab/*$é:# ", max_size=12))
def test_what_is_kept_of_a_long_file_says_the_same_to_us(
    others: int, noise: bytes, pattern: str
) -> None:
    text = for_all(f"Disallow: /{pattern}", "Crawl-delay: 2", "Sitemap: http://é/", "Allow: /b/")
    body = b"\n".join([b"User-agent: x\nDisallow: /" * others, text.encode(), noise, b"# " * 9999])
    rules, packed = digest(200, body, AGENT)
    stored = unpack(packed)
    assert stored is not None
    assert len(stored.body) < 1000
    kept = stored.rules(AGENT)
    assert (kept.delay_s, kept.sitemaps) == (rules.delay_s, rules.sitemaps)
    for path in ("/", "/a", "/b/", "/ab", "/b/a", "/é", "/b"):
        assert kept.allows(path) is rules.allows(path) is parse(body, AGENT).allows(path)


def test_no_more_sitemaps_are_read_than_anybody_has() -> None:
    lines = "\n".join(f"Sitemap: /{number}" for number in range(2 * MOST_SITEMAPS))
    assert len(parse(lines.encode(), AGENT).sitemaps) == MOST_SITEMAPS


@given(st.binary(max_size=300), st.text(max_size=30), st.text(max_size=30))
def test_no_file_agent_or_url_raises(body: bytes, agent: str, url: str) -> None:
    parse(body, agent).allows(url)
    parse(b"User-agent: *\nDisallow: /" + body, agent).allows("/" + url)


simple_paths = st.text("ab/", max_size=6).map(lambda text: "/a" + text)
simple_rules = st.tuples(
    st.sampled_from(["Allow", "Disallow"]),
    st.text("ab/*", max_size=6).map(lambda text: "/" + text),
)


@given(st.lists(simple_rules, max_size=8), simple_paths)
def test_plain_rules_mean_what_protego_reads(rules: list[tuple[str, str]], path: str) -> None:
    text = for_all(*(f"{kind}: {pattern}" for kind, pattern in rules))
    assert parse(text.encode(), AGENT).allows(path) is Protego.parse(text).can_fetch(path, AGENT)


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    [
        (ONE.format("crawl"), "/", True),
        (ONE.format("crawlproj/1.0"), "/", False),
        ("User-agent: crawlproj\nNoindex: /b\nUser-agent: y\nDisallow: /", "/a", False),
        (for_all("Disallow: /a?b=c://d"), "/a?b=c%3A%2F%2Fd", False),
        (for_all("Disallow: /x$"), "/x$y", True),
        (for_all("Disallow: /a?b"), "/a%3Fb", True),
        (for_all("Allow: /a?b", "Disallow: /a*bc"), "/a?bc", False),
        (for_all("Allow: /index.html", "Disallow: /"), "/", False),
    ],
)
def test_in_these_cases_protego_departs_from_the_rfc_and_is_not_used(
    rules: str, path: str, allowed: bool
) -> None:
    assert parse(rules.encode(), AGENT).allows(path) is allowed
    assert Protego.parse(rules).can_fetch(path, AGENT) is not allowed


@pytest.mark.parametrize(
    ("status", "verdict"),
    [(status, Verdict.RULES) for status in (200, 204, 206, 299)]
    + [(status, Verdict.REDIRECT) for status in (301, 302, 303, 307, 308)]
    + [(status, Verdict.ALLOW_ALL) for status in (400, 401, 403, 404, 410, 451, 499)]
    + [(status, Verdict.DENY_ALL) for status in (429, 500, 502, 503, 504, 599)]
    + [(status, Verdict.DENY_ALL) for status in (0, -1, 100, 199, 600, 999)],
)
def test_the_status_of_the_fetch_says_whether_there_are_rules(
    status: int, verdict: Verdict
) -> None:
    assert judge(status) is verdict


def test_a_file_behind_too_many_redirects_is_unavailable() -> None:
    assert judge(302, MOST_REDIRECTS - 1) is Verdict.REDIRECT
    assert judge(302, MOST_REDIRECTS) is Verdict.ALLOW_ALL
    assert judge(200, MOST_REDIRECTS) is Verdict.RULES


@given(st.integers(0, 999), st.sampled_from(Verdict), st.binary(max_size=200))
def test_what_is_stored_comes_back(status: int, verdict: Verdict, body: bytes) -> None:
    kept = body if verdict is Verdict.RULES else b""
    packed = pack(status, verdict, body)
    assert unpack(packed) == Stored(status, verdict, kept)
    assert unpack(for_another_host(packed)) == Stored(status, verdict, kept, True)
    assert unpack(for_another_host(packed, copied=True)) == Stored(
        status, verdict, kept, True, True
    )
    assert is_longer(packed, 100) is (len(kept) > 100)


@pytest.mark.parametrize(
    ("verdict", "path", "allowed"),
    [
        (Verdict.RULES, "/a", False),
        (Verdict.RULES, "/b", True),
        (Verdict.ALLOW_ALL, "/a", True),
        (Verdict.DENY_ALL, "/b", False),
        (Verdict.REDIRECT, "/b", False),
        (Verdict.DENY_ALL, "/robots.txt", True),
    ],
)
def test_what_is_stored_answers_for_the_host(verdict: Verdict, path: str, allowed: bool) -> None:
    stored = unpack(pack(200, verdict, for_all("Disallow: /a").encode()))
    assert stored is not None
    assert stored.rules(AGENT).allows(path) is allowed


def test_no_more_of_a_file_is_stored_than_is_read() -> None:
    stored = unpack(pack(200, Verdict.RULES, b"Disallow: /\n" * MOST_BYTES))
    assert stored is not None
    assert MOST_BYTES - 20 < len(stored.body) <= MOST_BYTES
    assert len(pack(200, Verdict.RULES, os.urandom(MOST_BYTES))) < MOST_BYTES * 1.01


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\x01",
        b"\x01\x01\x00\xc8",
        b"\x01\x01\x00\xc8not zlib",
        b"\x02" + pack(200, Verdict.RULES, b"x")[1:],
        b"\x01\x09" + pack(200, Verdict.RULES, b"x")[2:],
        pack(200, Verdict.RULES, b"x")[:-1],
        pack(200, Verdict.RULES, b"x") + b"more",
        b"\x01\x01\x00\xc8" + isal_zlib.compress(bytes(50_000_000)),
    ],
    ids=["empty", "short", "bare", "rot", "version", "verdict", "cut", "tail", "bomb"],
)
def test_a_record_that_is_not_ours_counts_as_none(packed: bytes) -> None:
    assert unpack(packed) is None


@given(st.binary(max_size=100))
def test_no_record_raises(packed: bytes) -> None:
    unpack(packed)
    unpack(pack(200, Verdict.RULES, b"x")[:4] + packed)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([], set()),
        (["noindex"], {"noindex"}),
        ([b"NoIndex, NOFOLLOW"], {"noindex", "nofollow"}),
        (["noindex", "nofollow"], {"noindex", "nofollow"}),
        (["none"], {"noindex", "nofollow"}),
        (["all"], set()),
        (["crawlproj: nofollow"], {"nofollow"}),
        (["CrawlProj : noindex, nofollow"], {"noindex", "nofollow"}),
        (["otherbot: noindex, nofollow"], set()),
        (["otherbot: noindex", "nofollow"], {"nofollow"}),
        (["noarchive, otherbot: noindex, crawlproj: none"], {"noarchive", "noindex", "nofollow"}),
        (["unavailable_after: 25 Jun 2010 15:00:00 PST"], set()),
        (["unavailable_after: Sunday, 06-Nov-94 08:49:37 GMT, nofollow"], {"nofollow"}),
        (["max-snippet: 20, max-image-preview:large, noindex"], {"noindex"}),
        (["otherbot: max-snippet:20, noindex"], set()),
        ([b"\xff\xfe, ,;noindex", ":", "::,"], set()),
    ],
)
def test_a_header_speaks_to_all_or_to_the_crawler_it_names(
    values: list[str | bytes], found: set[str]
) -> None:
    assert directives(values, "crawlproj/1.0") == found


@pytest.mark.parametrize(
    "line",
    [
        b"Disallow: /%x",
        b"Allow: /%x$",
        b"Disallow: /*%x",
        b"Disallow: /%x" + b"*a" * 100,
        b"Disallow: /%x/*/" + b"x" * 80 + b"*",
        b"Disallow: /%x/" + b"\xc3\xa9" * 10,
        b"Sitemap: /%x",
    ],
)
def test_rules_know_about_how_much_memory_they_take(line: bytes) -> None:
    numbers = range(MOST_STARRED_OCTETS // 205 if b"*" in line else 2000)
    body = b"User-agent: *\n" + b"\n".join(line % number for number in numbers)
    parse(body, AGENT)  # what the first time takes for good is not the rules'
    tracemalloc.start()
    rules = parse(body, AGENT)
    gc.collect()  # what Python keeps for further tuples is not, either
    assert not rules.is_too_much
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.7 * kept_bytes < rules.size_bytes < 1.4 * kept_bytes
