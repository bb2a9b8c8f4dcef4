"""What is read of an engine's page, and that a page which is none is never taken for no results."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from crawlproj.discover.search_engines import (
    Answer,
    Ask,
    DuckDuckGo,
    SearchError,
    SearXNG,
    engine,
)
from crawlproj.errors import ConfigError
from tests.servers.search_pages import duckduckgo, result, searxng

HTML = "https://html.example/html/"


def read(body: str, status: int = 200, asked: Ask | None = None) -> tuple[list[str], Ask | None]:
    found = DuckDuckGo(HTML).read(asked or Ask(HTML), Answer(HTML, status, body.encode()))
    return found.urls, found.following


def test_duckduckgo_is_asked_with_the_words_in_the_query() -> None:
    assert DuckDuckGo().ask("a b&c") == Ask("https://html.duckduckgo.com/html/?q=a+b%26c")


def test_redirect_links_are_unwrapped_and_advertisements_left_out() -> None:
    pages = ["https://a.example/x?y=1&z=ä", "http://b.example/"]
    body = duckduckgo([*pages, pages[0]], ads=["https://shop.example/"])
    assert read(body)[0] == pages


@pytest.mark.parametrize(
    ("href", "url"),
    [
        ("https://plain.example/a", "https://plain.example/a"),
        (
            "//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.example%2F%3Fq%3D1%252C2&rut=0",
            "https://a.example/?q=1%2C2",
        ),
        ("/l/?uddg=http%3A%2F%2Fa.example%2F", "http://a.example/"),
        ("//duckduckgo.com/y.js?ad_domain=shop.example&u3=https%3A%2F%2Fshop.example", ""),
        ("//duckduckgo.com/l/?uddg=https%3A%2F%2Fduckduckgo.com%2Fy.js%3Fad_domain%3Dx", ""),
        ("//duckduckgo.com/l/?rut=0", ""),
        ("javascript:alert(1)", ""),
        ("http://[", ""),
        ("/l/?uddg=http%3A%2F%2F%5B", ""),
        ("//duckduckgo.com/l/?uddg=file%3A%2F%2F%2Fetc%2Fpasswd", ""),
    ],
)
def test_a_link_leads_where_its_redirect_does(href: str, url: str) -> None:
    other = "https://other.example/"
    body = duckduckgo([]).replace("<!-- results -->", result(href) + result(other))
    assert read(body)[0] == [one for one in (url, other) if one]


def test_the_next_page_is_asked_for_by_the_form_that_leads_on() -> None:
    urls, following = read(duckduckgo(["http://a.example/"], offset=10))
    assert following is not None and following.url == HTML
    assert following.form is not None
    assert (following.form["q"], following.form["s"], following.form["vqd"]) == ("w", "10", "4-1")
    _, after = read(duckduckgo(["http://b.example/"], offset=25, back=0), asked=following)
    assert after is not None and after.form is not None and after.form["s"] == "25"
    _, last = read(duckduckgo(["http://c.example/"], back=10), asked=after)
    assert last is None and urls == ["http://a.example/"]


@pytest.mark.parametrize("offset", ["9" * 5000, "²", ""])
def test_a_form_that_leads_nowhere_is_no_next_page(offset: str) -> None:
    page = duckduckgo(["http://a.example/"], offset=77).replace('"77"', f'"{offset}"')
    assert offset in page and "77" not in page
    assert read(page) == (["http://a.example/"], None)


def test_a_page_that_says_that_nothing_was_found_is_understood() -> None:
    assert read(duckduckgo([], nothing=True)) == ([], None)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ("<form id='challenge-form' action='//duckduckgo.com/anomaly.js'>", 202, "a human"),
        ("<div class='anomaly-modal__modal'>bots use it too</div>", 200, "a human"),
        ("<html><body><h1>A new design</h1></body></html>", 200, "no list of results"),
        ("", 200, "no list of results"),
        ("\x00\x01 not html", 200, "no list of results"),
        (duckduckgo([], ads=["http://shop.example/"]), 200, "no list of results"),
        (duckduckgo(["http://a.example/"]), 503, "status 503"),
        ("Forbidden", 403, "status 403"),
    ],
)
def test_a_page_of_duckduckgo_that_is_none_of_results_is_said(
    body: str, status: int, said: str
) -> None:
    with pytest.raises(SearchError, match=said) as raised:
        read(body, status)
    assert str(raised.value).startswith("html.example ") and "\n" not in str(raised.value)


def ask_searxng(body: str, status: int = 200) -> tuple[list[str], Ask | None]:
    instance = SearXNG("http://searx.example/")
    asked = instance.ask("w & v")
    assert asked == Ask("http://searx.example/search?q=w+%26+v&format=json&pageno=1")
    found = instance.read(asked, Answer(asked.url, status, body.encode()))
    return found.urls, found.following


def test_searxng_is_read_in_its_order_and_asked_for_page_after_page() -> None:
    urls, following = ask_searxng(searxng(["http://b/", "http://a/", "http://b/"]))
    assert urls == ["http://b/", "http://a/"]
    assert following == Ask("http://searx.example/search?q=w+%26+v&format=json&pageno=2")
    assert ask_searxng(searxng([])) == ([], None)


def test_what_is_no_url_among_the_results_of_searxng_is_left_out() -> None:
    results = [{"url": "magnet:?x"}, {"url": None}, {}, "text", {"url": "http://a/"}]
    assert ask_searxng(json.dumps({"results": results}))[0] == ["http://a/"]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ("<h1>403 Forbidden</h1>", 403, "gives no JSON .403.; add json to search.formats"),
        ("<html>", 200, "no list of results"),
        ("[]", 200, "no list of results"),
        ('{"results": 1}', 200, "no list of results"),
        ("[" * 100_000, 200, "no list of results"),
        ("slow down", 429, "status 429"),
        (searxng([], silent=[["brave", "CAPTCHA"]]), 200, "engines do not answer.*brave"),
    ],
)
def test_an_answer_of_searxng_that_is_none_of_results_is_said(
    body: str, status: int, said: str
) -> None:
    with pytest.raises(SearchError, match=said):
        ask_searxng(body, status)


def test_an_engine_is_named_or_a_class_of_ones_own() -> None:
    assert isinstance(engine("duckduckgo", ""), DuckDuckGo)
    own = engine("tests.servers.search_pages.Lines", "http://lines.example/")
    assert own.ask("w") == Ask("http://lines.example/w")
    with pytest.raises(ConfigError, match="engine searxng: set CRAWL_SEARCH_URL"):
        engine("searxng", "")
    for name in ("gooogle", "no.such.Engine", "tests.servers.search_pages.quote_all"):
        with pytest.raises(ConfigError, match=f"engine {name}: give duckduckgo, searxng or"):
            engine(name, quote(""))


def test_a_misspelt_engine_is_answered_with_those_there_are_and_nothing_else() -> None:
    with pytest.raises(ConfigError, match=r"the dotted path of your own$"):
        engine("goggle", "")
