"""Which links are followed, by tables."""

from __future__ import annotations

import pytest

from crawlproj.discover.rules import Rules
from crawlproj.urls import normalise


@pytest.mark.parametrize(
    ("scope", "url", "name"),
    [
        ("host", "http://www.a.example/x", "www.a.example"),
        ("host", "https://www.a.example/x", "www.a.example"),
        ("host", "http://www.a.example:8080/x", "www.a.example:8080"),
        ("domain", "http://www.a.example/x", "a.example"),
        ("domain", "https://news.bbc.co.uk:444/", "bbc.co.uk"),
        ("domain", "http://127.0.0.1:8000/", "127.0.0.1"),
        ("domain", "http://someone.github.io/", "someone.github.io"),
    ],
)
def test_a_seed_brings_its_host_or_its_domain_into_scope(scope: str, url: str, name: str) -> None:
    assert Rules(scope).scope_name(normalise(url)) == name


@pytest.mark.parametrize(
    ("rules", "url", "depth", "refusal"),
    [
        (Rules("any"), "http://x.example/", 99, None),
        (Rules("host"), "http://www.a.example/", 1, None),
        (Rules("host"), "https://www.a.example/", 1, None),
        (Rules("host"), "http://a.example/", 1, "offsite"),
        (Rules("host"), "http://www.a.example:81/", 1, "offsite"),
        (Rules("domain"), "http://other.b.example/", 1, None),
        (Rules("domain"), "http://b.example.evil/", 1, "offsite"),
        (Rules(depth=2), "http://x/", 2, None),
        (Rules(depth=2), "http://x/", 3, "depth"),
        (Rules(depth=0), "http://x/", 1, "depth"),
        (Rules(deny=("/private",)), "http://x/private/a", 1, "denied"),
        (Rules(deny=("/private", "[.]pdf$")), "http://x/a.pdf", 1, "denied"),
        (Rules(deny=("/private",)), "http://x/public", 1, None),
        (Rules(allow=("/blog/", "/news/")), "http://x/news/1", 1, None),
        (Rules(allow=("/blog/",)), "http://x/shop/", 1, "not_allowed"),
        (Rules(allow=("/blog/",), deny=("/blog/old",)), "http://x/blog/old", 1, "denied"),
        (Rules(allow=("(?i)/BLOG/", "(.)-\\1$")), "http://x/blog/", 1, None),
        (Rules(allow=("(?i)/BLOG/", "(.)-\\1$")), "http://x/a-a", 1, None),
        (Rules(allow=("(?P<n>a)", "(?P<n>b)")), "http://x/b", 1, None),
        (Rules("host", depth=1, deny=("x",)), "http://x/", 2, "depth"),
        (Rules(), "http://x/a/a/a/a", 1, None),
        (Rules(traps=True), "http://x/a/a/a/a", 1, "trap-repeat"),
        (Rules(traps=True, trap_repeats=4), "http://x/a/a/a/a", 1, None),
        (Rules(traps=True, trap_depth=2), "http://x/a/b/c", 1, "trap-depth"),
        (Rules(traps=True, trap_params=2), "http://x/?a&b&c", 1, "trap-params"),
        (Rules(traps=True, trap_params=3), "http://x/?a&b&c", 1, None),
        (Rules(), "http://x/a.jpg", 1, None),
        (Rules(media=False), "http://x/a.jpg", 1, "media"),
        (Rules(media=False), "http://x/a.pdf", 1, None),
        (Rules("host", media=False), "http://x/a.jpg", 1, "offsite"),
        (Rules("host", deny=("x",)), "http://x/", 1, "offsite"),
    ],
)
def test_a_link_is_followed_or_refused_with_the_first_reason(
    rules: Rules, url: str, depth: int, refusal: str | None
) -> None:
    assert rules.refusal(normalise(url), depth, {"www.a.example", "b.example"}) == refusal


def test_where_a_seed_is_redirected_to_is_in_scope_but_no_seed() -> None:
    rules = Rules("domain")
    names = rules.scope_names(normalise("http://www.c.example:81/"), redirected=True)
    assert names == {">c.example", ">www.c.example:81"}
    assert rules.refusal(normalise("http://x.c.example/"), 1, names) is None
    assert rules.refusal(normalise("http://d.example/"), 1, names) == "offsite"


def test_the_domain_of_a_seed_is_in_scope_but_no_seed() -> None:
    rules = Rules("domain")
    names = rules.scope_names(normalise("http://www.c.example/"))
    assert names == {">c.example", "www.c.example"}
    assert rules.refusal(normalise("http://c.example/"), 1, names) is None
    assert rules.scope_names(normalise("http://c.example/")) == {"c.example"}
