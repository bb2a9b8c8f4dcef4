"""Every kind of bad URL as a link on one page: what goes on the wire, and what does not.

The worker's proxy is our origin, which so stands behind every name and sees whole URLs. Each case
says which requests its links may cause, or the reason they are filtered for; that nothing else is
ever asked for holds for all of them together.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from crawlproj.frontier.frontier import Frontier
from crawlproj.operate import why
from crawlproj.operate.request_log import Logged
from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply, Request
from tests.servers.redis import RedisServer

SITE = "http://site.test"
SEED = f"{SITE}/"
BUDGET = 80
HUGE = f"{SITE}/huge/" + "x" * 1_000_000
SESSION = "0123456789abcdef"


class Case(NamedTuple):
    """Links that are one case: the one URL that is asked for, or the reason why none is."""

    hrefs: tuple[str | bytes, ...]
    fetched: str = ""
    filtered: str = ""


def fetched(url: str, *hrefs: str | bytes) -> Case:
    return Case(hrefs, fetched=url if "://" in url else SITE + url)


def filtered(reason: str, *hrefs: str | bytes) -> Case:
    return Case(hrefs, filtered=reason)


CASES = {
    # Hosts and ports
    "empty host": filtered("host", "http://", "http:///", "http://?q", "http://:80/p"),
    "open bracket": filtered("host", "http://[::1", "http://[::1/p"),
    "closed bracket": filtered("host", "http://::1]/"),
    "no IPv6 address": filtered("host", "http://[1:2]/", "http://[fe80::1%25eth0]/"),
    "port out of range": filtered("port", "http://a.test:99999/", "http://a.test:0/"),
    "port of letters": filtered("port", "http://a.test:b/", "http://a.test:8o/"),
    "default port": fetched("/default-port", f"{SITE}:80/default-port", f"{SITE}/default-port"),
    "empty port": fetched("/empty-port", f"{SITE}:/empty-port"),
    "NUL in host, as a byte": filtered("idn", b"http://nul\0byte.test/"),
    "NUL in host, as an entity": filtered("idn", b"http://nul&#0;entity.test/"),
    "NUL in host, escaped": filtered("host", "http://nul%00escape.test/"),
    "blank in host": filtered("host", "http://a b.test/", "http://a%20b.test/"),
    "slash in host": filtered("host", "http://a%2Fb.test/"),
    "label too long": filtered("host", f"http://{'l' * 64}.test/"),
    "name too long": filtered("host", f"http://{'l.' * 130}test/"),
    "five numbers": filtered("host", "http://1.2.3.4.5/"),
    "number too large": filtered("host", "http://4294967296/", "http://256.1.1.1/"),
    "upper case": fetched("/UPPER", "HTTP://SITE.TEST/UPPER"),
    "trailing dot": fetched("/dot", "http://site.test./dot"),
    "userinfo": fetched("/userinfo", "http://user:secret@site.test/userinfo"),
    "good@evil": fetched("http://evil.test/at", "http://site.test@evil.test/at"),
    "good@evil, twice": fetched("http://evil.test/at2", "http://site.test@good.test@evil.test/at2"),
    "good\\@evil": fetched("/@evil.test/at3", "http://site.test\\@evil.test/at3"),
    "U-label and A-label": fetched(
        "http://xn--bcher-kva.test/idn", "http://bücher.test/idn", "http://xn--bcher-kva.test/idn"
    ),
    "full-width letters": fetched("/full-width", "http://ｓｉｔｅ．ｔｅｓｔ/full-width"),
    "bad punycode": filtered("idn", "http://xn--a.test/", "http://xn--.test/"),
    "lone joiner": filtered("idn", "http://a\u200db.test/"),
    # Addresses that are not the public internet, in every spelling
    "0x7f.1": filtered("address", "http://0x7f.1/"),
    "decimal loopback": filtered("address", "http://2130706689/"),
    "octal loopback": filtered("address", "http://0177.0.0.3/"),
    "IPv6 loopback": filtered("address", "http://[::1]/"),
    "mapped private": filtered("address", "http://[::ffff:10.0.0.1]/"),
    "private": filtered("address", "http://192.168.7.7/"),
    "cloud metadata": filtered("address", "http://169.254.169.254/latest/meta-data/"),
    "full-width metadata": filtered("address", "http://１６９.254.169.253/"),
    "nothing": filtered("address", "http://0/"),
    # Schemes
    "javascript": filtered("scheme", "javascript:alert(1)", " JaVaScRiPt:void(0)"),
    "javascript, broken up": filtered("scheme", "java\nscript:alert(2)"),
    "mailto": filtered("scheme", "mailto:a@b.test"),
    "tel": filtered("scheme", "tel:+4930123"),
    "data": filtered("scheme", "data:text/html,<a href=/from-data>x</a>"),
    "blob": filtered("scheme", "blob:http://site.test/1234"),
    "file": filtered("scheme", "file:///etc/passwd"),
    "ftp": filtered("scheme", "ftp://site.test/x"),
    "s3": filtered("scheme", "s3://bucket/key"),
    "view-source": filtered("scheme", "view-source:http://site.test/"),
    # Characters
    "tab, CR, LF": fetched("/tabcrlf", f"{SITE}/ta\tb\r\ncrlf", "ht\ntp://site.test/tabcrlf"),
    "header injection": fetched(
        "/inject%0D%0AX-Evil:%201", f"{SITE}/inject%0d%0aX-Evil:%201", "/inject%0D%0AX-Evil: 1"
    ),
    "backslashes": fetched("/back/slash", "http:\\\\site.test\\back\\slash", "\\back\\slash"),
    "spaces around": fetched("/spaces", "  /spaces  ", "\n/spaces\t"),
    "spaces inside": fetched("/in%20side?a%20b", "/in side?a b"),
    "stray percent": fetched("/%zz", "/%zz"),
    "percent at the end": fetched("/end%", "/end%"),
    "escaped letters": fetched("/letters", "/%6Cetters", "/lett%65rs"),
    "escapes in two cases": fetched("/cas%C3%A9", "/cas%c3%a9", "/casé", b"/cas\xc3\xa9"),
    "double escape": fetched("/double%252f", "/double%252f"),
    "non-UTF-8 query, escaped": fetched("/q?a=%FF%FE", "/q?a=%ff%fe"),
    "non-UTF-8 query, as bytes": fetched("/q?b=%EF%BF%BD", b"/q?b=\xff"),
    "lone surrogate": fetched("/surrogate%EF%BF%BD", b"/surrogate&#xD800;"),
    "surrogate as bytes": fetched("/sur%EF%BF%BD%EF%BF%BD%EF%BF%BD", b"/sur\xed\xa0\x80"),
    "quotes and brackets": fetched("/%22%3Cb%3E%60", '/"<b>`'),
    "fragment": fetched("/fragment", "/fragment#a", "/fragment#b?c", "/fragment"),
    "dot segments": fetched("/up", "/a/../../../up", "/./up", "/%2e%2e/up"),
    "empty query": fetched("/empty-query", "/empty-query?", "/empty-query"),
    # Lengths
    "longer than 2,083": filtered("length", f"{SITE}/{'y' * 2_100}"),
    "a megabyte": filtered("length", HUGE),
    "a megabyte of escapes": filtered("length", f"{SITE}/{'%41' * 333_000}"),
    "long only by its escapes": fetched("/" + "e" * 1_500, "/" + "%65" * 1_500),
    # One page, many URLs
    "session in the path": fetched("/session", f"/session;jsessionid={SESSION}", "/session"),
    "session in the query": fetched("/php?a=1", f"/php?PHPSESSID={SESSION}&a=1", "/php?a=1"),
    "utm": fetched("/utm?x=1", "/utm?utm_source=a&x=1&utm_medium=b", "/utm?x=1&gclid=3"),
    "repeating path": filtered("trap-repeat", "/a/b/a/b/a/b/a/b/"),
    "deep path": filtered("trap-depth", "/" + "/".join(f"d{n}" for n in range(30))),
    "many parameters": filtered("trap-params", "/p?" + "&".join(f"p{n}=1" for n in range(30))),
}

BASES = {
    "javascript base": ("javascript:alert(1)//", f"{SITE}/base/", "javascript"),
    "data base": ("data:text/html,x", f"{SITE}/base/", "data"),
    "bad base": ("http://[", f"{SITE}/base/", "bad"),
    "base elsewhere": ("http://elsewhere.test/there/", "http://elsewhere.test/there/", "there"),
    "base with secrets": ("http://u:p@elsewhere.test/", "http://elsewhere.test/", "secrets"),
    "huge base": ("/" + "x" * 500_000 + "/", f"{SITE}/base/", "huge"),
}
"""A hostile `<base>`: what a link on its page is relative to, and that link."""


def link(href: str | bytes) -> bytes:
    raw = html.escape(href).encode() if isinstance(href, str) else href
    return b'<a href="' + raw + b'">x</a>\n'


def base_page(base: str, href: str) -> Reply:
    return Reply(body=b'<base href="' + html.escape(base).encode() + b'">' + link(href))


def calendar(request: Request) -> Reply:
    """Each day has a link to two more, for ever."""
    day = int(request.path.partition("=")[2] or 1)
    return Reply(body=link(f"/?day={2 * day}") + link(f"/?day={2 * day + 1}"))


def answer(request: Request) -> Reply:
    return calendar(request) if request.path.startswith("http://calendar.test/") else Reply()


def routes() -> dict[str, Any]:
    hrefs = [href for case in CASES.values() for href in case.hrefs]
    pages = [f"/base/{number}" for number in range(len(BASES))]
    seed = b"".join(map(link, [*hrefs, *pages, "http://calendar.test/"]))
    bases = (base_page(base, href) for base, _, href in BASES.values())
    return {
        SEED: Reply(body=seed),
        **{SITE + path: page for path, page in zip(pages, bases, strict=True)},
    }


class Crawled(NamedTuple):
    fleet: Fleet
    log: str
    requests: list[Logged]
    sizes: dict[str, int]
    traces: dict[str | bytes, why.Trace]
    """What `scrapy why` says of each link."""

    def asked(self, within: str = "http") -> list[str]:
        """The URLs on the wire, in order."""
        return [one.path for one in self.requests if one.path.startswith(within)]


@pytest.fixture(scope="module")
def crawled(module_fleet: Fleet, redis_process: RedisServer) -> Iterator[Crawled]:
    with (
        redis_process.client() as client,
        Origin(routes(), default=answer) as origin,
        pytest.MonkeyPatch.context() as environment,
    ):
        environment.setenv("http_proxy", origin.url(""))
        limits = {"delay": 0, "per_host": 16, "pages_per_host": BUDGET}
        worker = module_fleet.start({"ROBOTSTXT_OBEY": False}, seeds=SEED, scope="any", **limits)
        assert worker.wait(60) == "finished"
        sizes = {key.decode(): client.memory_usage(key) or 0 for key in client.scan_iter()}
        traces = trace_all(module_fleet)
        yield Crawled(module_fleet, worker.log, origin.requests(), sizes, traces)


def trace_all(fleet: Fleet) -> dict[str | bytes, why.Trace]:
    hrefs = [href for case in CASES.values() for href in case.hrefs]
    folder = fleet.output / "site"

    async def trace(frontier: Frontier) -> dict[str | bytes, why.Trace]:
        return {href: await why.trace(frontier, absolute(href), folder) for href in hrefs}

    return fleet.at_frontier(trace)


def absolute(href: str | bytes) -> str:
    """The link as the page has it, for a reader who is not on that page."""
    text = href if isinstance(href, str) else html.unescape(href.decode("utf-8", "replace"))
    text = text.replace("\0", "\ufffd").strip()
    return SITE + text if text.startswith(("/", "\\")) else text


def test_the_crawl_finishes_with_everything_accounted_for(crawled: Crawled) -> None:
    now = crawled.fleet.status()
    assert [now[name] for name in ("balance", "queued", "delayed", "leased", "dead")] == [0] * 5
    assert now["done"] == len(crawled.requests) == len(crawled.fleet.rows("pages"))
    assert "Traceback" not in crawled.log


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.fetched])
def test_each_spelling_of_a_page_leads_to_one_request(name: str, crawled: Crawled) -> None:
    url = CASES[name].fetched
    assert (crawled.asked().count(url), crawled.fleet.urls().count(url)) == (1, 1)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.filtered])
def test_each_link_that_is_not_followed_has_its_reason(name: str, crawled: Crawled) -> None:
    case = CASES[name]
    # An address is judged when it is to be connected to, which leaves no trace of a single URL.
    wanted = ("seen", None) if case.filtered == "address" else ("filtered", case.filtered)
    for href in case.hrefs:
        found = crawled.traces[href]
        assert (found.state, found.details.get("reason")) == wanted, found.text


def test_nothing_but_these_pages_was_ever_asked_for(crawled: Crawled) -> None:
    pages = [case.fetched for case in CASES.values() if case.fetched]
    bases = [f"{SITE}/base/{number}" for number in range(len(BASES))]
    relative = [base + href for _, base, href in BASES.values()]
    others = [url for url in crawled.asked() if not url.startswith("http://calendar.test/")]
    assert sorted(others) == sorted([SEED, *pages, *bases, *relative])


def test_the_ledger_counts_each_reason(crawled: Crawled) -> None:
    counted = crawled.fleet.status()["filtered"]
    reasons = {case.filtered for case in CASES.values() if case.filtered}
    assert counted.keys() == reasons | {"host_limit"}
    assert counted["address"] == sum(case.filtered == "address" for case in CASES.values())


@pytest.mark.parametrize("name", BASES)
def test_a_hostile_base_is_taken_as_a_browser_would_or_ignored(name: str, crawled: Crawled) -> None:
    _, base, href = BASES[name]
    assert crawled.asked().count(base + href) == 1


def test_a_calendar_without_end_costs_its_host_no_more_than_its_budget(crawled: Crawled) -> None:
    assert len(crawled.asked("http://calendar.test/")) == BUDGET


def test_a_huge_link_is_stored_nowhere(crawled: Crawled) -> None:
    large = {key for key, size in crawled.sizes.items() if size > 50_000}
    assert all(":seen:" in key for key in large)
    assert "x" * 300 not in crawled.log
