"""Search engines as sources of seeds: how each is asked, and which URLs its answer names. Pure.

An engine is a small class that is made with its address. `ask` says how to get the first page of
results for some words, `read` what a page says: its organic results in their order, and how to get
the next page. A page that cannot be understood raises SearchError, for an engine that has changed
its form, or wants a proof that a human searches, must not pass for one without results.

    class Intranet:
        def __init__(self, address: str) -> None: ...
        def ask(self, words: str) -> Ask: ...
        def read(self, asked: Ask, answer: Answer) -> Results: ...

`scrapy seed site --search "words" --engine my.module.Intranet` uses one of the user's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

from parsel import Selector

from crawlproj.errors import ConfigError, CrawlError
from crawlproj.urls import absolute

MOST_BYTES = 5 * 1024 * 1024
"""Of one page of results."""
_RANK = re.compile(r"[0-9]{1,9}")
"""How many results have been shown before a page."""


class SearchError(CrawlError):
    """An engine that does not answer with results. `str()` says what it does instead."""


class Ask(NamedTuple):
    """A request for one page of results; a form is posted."""

    url: str
    form: Mapping[str, str] | None = None


class Answer(NamedTuple):
    """What came back for it; the URL is where redirects have led."""

    url: str
    status: int
    body: bytes


class Results(NamedTuple):
    """The URLs of a page in their order, and how to ask for the next page if there is one."""

    urls: list[str]
    following: Ask | None = None


class Engine(Protocol):
    """What `scrapy seed --search` asks of an engine."""

    def ask(self, words: str) -> Ask:
        """The first page of results."""

    def read(self, asked: Ask, answer: Answer) -> Results:
        """What a page says; raises SearchError if it is none of results."""


def _has(token: str) -> str:
    """A test of XPath: one of the classes of an element."""
    return f"contains(concat(' ', normalize-space(@class), ' '), ' {token} ')"


class DuckDuckGo:
    """The page for browsers without JavaScript. Its links lead through a redirect of its own, from
    which they are unwrapped; advertisements lead through another."""

    ADDRESS = "https://html.duckduckgo.com/html/"

    _RESULTS = (
        f"//*[{_has('result')} and not(contains(@class, 'result--ad'))]//a[{_has('result__a')}]"
    )
    _CHALLENGE = f"//form[@id='challenge-form'] | //*[{_has('anomaly-modal__modal')}]"
    _NOTHING = f"//*[{_has('no-results')} or {_has('result--no-result')}]"

    def __init__(self, address: str = "") -> None:
        self._address = address or self.ADDRESS

    def ask(self, words: str) -> Ask:
        return Ask(_with_query(self._address, {"q": words}))

    def read(self, asked: Ask, answer: Answer) -> Results:
        page = _html(answer)
        if page.xpath(self._CHALLENGE):
            raise SearchError(
                f"{_name(answer)} wants a proof that a human searches; try again later, or "
                "with another engine (--engine)"
            )
        _refuse_status(answer)
        hrefs = page.xpath(self._RESULTS).xpath("@href").getall()
        urls = _once(filter(None, (self._unwrapped(answer.url, href) for href in hrefs)))
        if not urls and not page.xpath(self._NOTHING):
            raise _not_understood(answer)
        return Results(urls, self._following(asked, answer, page) if urls else None)

    @staticmethod
    def _unwrapped(page: str, href: str) -> str:
        """Where a link leads; nothing for an advertisement, and what is no URL."""
        try:
            parts = urlsplit(urljoin(page, href))
            if parts.path == "/l/":
                parts = urlsplit(next(iter(parse_qs(parts.query).get("uddg", ())), ""))
        except ValueError:
            return ""
        is_page = parts.scheme in ("http", "https") and not parts.path.endswith("/y.js")
        return parts.geturl() if is_page else ""

    @staticmethod
    def _following(asked: Ask, answer: Answer, page: Selector) -> Ask | None:
        """The form of its button that leads on: of the one that leads back `s` is less."""
        shown = int((asked.form or {}).get("s", 0))
        for form in page.xpath(f"//*[{_has('nav-link')}]//form"):
            fields = {
                name: field.attrib.get("value", "")
                for field in form.xpath(".//input")
                if (name := field.attrib.get("name"))
            }
            if _RANK.fullmatch(fields.get("s", "")) and int(fields["s"]) > shown:
                return Ask(absolute(form.attrib.get("action", ""), answer.url), fields)
        return None


class SearXNG:
    """The JSON of an instance, which has to allow that format."""

    def __init__(self, address: str = "") -> None:
        if not address:
            raise ConfigError("engine searxng: set CRAWL_SEARCH_URL to the address of an instance")
        is_root = urlsplit(address).path in ("", "/")
        self._address = urljoin(address, "/search") if is_root else address

    def ask(self, words: str) -> Ask:
        return self._page(words, 1)

    def _page(self, words: str, number: int) -> Ask:
        asked = {"q": words, "format": "json", "pageno": str(number)}
        return Ask(_with_query(self._address, asked))

    def read(self, asked: Ask, answer: Answer) -> Results:
        if answer.status == 403:
            raise SearchError(
                f"{_name(answer)} gives no JSON (403); add json to search.formats of its settings"
            )
        _refuse_status(answer)
        found = _json(answer)
        if not isinstance(found.get("results"), list):
            raise _not_understood(answer)
        urls = _once(filter(None, map(_url_of, found["results"])))
        if not urls and (silent := found.get("unresponsive_engines")):
            raise SearchError(
                f"{_name(answer)}: its own engines do not answer: {str(silent)[:200]}"
            )
        query = parse_qs(urlsplit(asked.url).query)
        following = self._page(query["q"][0], int(query["pageno"][0]) + 1)
        return Results(urls, following if urls else None)


DEFAULT = "duckduckgo"
ENGINES: dict[str, type[DuckDuckGo] | type[SearXNG]] = {DEFAULT: DuckDuckGo, "searxng": SearXNG}


def engine(name: str, address: str) -> Engine:
    """The engine of that name, or the class at that dotted path, for this address."""
    if name in ENGINES:
        return ENGINES[name](address)
    wanted = f"engine {name}: give {', '.join(ENGINES)} or the dotted path of your own"
    module, _, attribute = name.rpartition(".")
    if not module:
        raise ConfigError(wanted)
    try:
        made: Engine = getattr(import_module(module), attribute)(address)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ConfigError(f"{wanted} ({error})") from None
    return made


def _with_query(address: str, fields: Mapping[str, str]) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode(fields)}"


def _html(answer: Answer) -> Selector:
    return Selector(answer.body.decode("utf-8", "replace") or "<html/>")


def _json(answer: Answer) -> dict[str, Any]:
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise _not_understood(answer) from None
    return found if isinstance(found, dict) else {}


def _url_of(result: Any) -> str:
    url = result.get("url") if isinstance(result, dict) else None
    return url if isinstance(url, str) and url.startswith(("http://", "https://")) else ""


def _once(urls: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(urls))


def _name(answer: Answer) -> str:
    return urlsplit(answer.url).netloc


def _refuse_status(answer: Answer) -> None:
    if answer.status != 200:
        raise SearchError(f"{_name(answer)} answers with status {answer.status}")


def _not_understood(answer: Answer) -> SearchError:
    return SearchError(
        f"{_name(answer)} answers with a page that is no list of results as this engine knows it; "
        "name another with --engine"
    )
