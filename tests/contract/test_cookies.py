"""Cookies that workers share: told before the links, heard with the leases, and bounded."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from scrapy import Request
from scrapy.downloadermiddlewares import cookies
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from crawlproj.fetch.cookies import LARGEST_COOKIE_BYTES, CookiesMiddleware, SharedCookies
from crawlproj.frontier import keys
from crawlproj.frontier.cookie_store import MOST_COOKIES, changes_told, share
from crawlproj.frontier.frontier import Frontier
from crawlproj.running import announce
from tests.contract.shared_crawl import SharedCrawl
from tests.lua.helpers import CRAWL, link
from tests.servers.frontier import push_all

SITE = "https://www.shop.example.co.uk"
PAGE = f"{SITE}/a/b"


class _Crawler:
    """As much of a crawler, and of its crawl, as the middleware asks for."""

    def __init__(self, cookies: SharedCookies) -> None:
        self.cookies = cookies
        self.spider = None
        announce(self, self)  # type: ignore[arg-type]


class Visitor:
    """A worker that visits pages, and what it is given there."""

    def __init__(self, frontier: Frontier) -> None:
        self.frontier = frontier
        self.shared = SharedCookies(frontier)
        self._middleware = CookiesMiddleware()
        self._middleware.crawler = _Crawler(self.shared)  # type: ignore[assignment]

    def visit(self, url: str, *given: str, **about: Any) -> str:
        """Fetch a page that gives these cookies; returns those that were sent."""
        request = Request(url, **about)
        self._middleware.process_request(request)
        response = Response(url, headers={"Set-Cookie": list(given)} if given else {})
        assert self._middleware.process_response(request, response) is response
        return (request.headers.get("Cookie") or b"").decode()

    async def be_given(self, path: str, url: str = SITE) -> None:
        """Be the one to lease a page that was pushed."""
        await push_all(self.frontier, [link(url, path)])
        batch = await self.frontier.lease(10)
        assert len(batch.leases) == 1
        await self.shared.learn(batch.leases)


async def two(crawl: SharedCrawl) -> tuple[Visitor, Visitor]:
    return Visitor(await crawl.join("w1", per_host=9)), Visitor(await crawl.join("w2"))


async def test_what_one_worker_is_given_all_send_from_their_next_lease_on(
    crawl: SharedCrawl,
) -> None:
    one, other = await two(crawl)
    one.visit(PAGE, "sid=1; Path=/; HttpOnly", "deep=2; Path=/a")
    assert one.visit(PAGE) == "deep=2; sid=1"
    await one.shared.share()
    assert other.visit(PAGE) == ""
    await other.be_given("/1")
    assert other.visit(PAGE) == "deep=2; sid=1"
    assert other.visit(f"{SITE}/elsewhere") == "sid=1"
    other.visit(PAGE, "sid=3; Path=/", "deep=; Path=/a; Max-Age=0")
    await other.shared.share()
    await one.be_given("/2")
    assert one.visit(PAGE) == "sid=3"


async def test_each_jar_of_a_spider_is_shared_by_itself(crawl: SharedCrawl) -> None:
    one, other = await two(crawl)
    one.visit(PAGE, "sid=anna; Path=/", meta={"cookiejar": 1})
    one.visit(PAGE, cookies={"sid": "berta"}, meta={"cookiejar": "1"})
    assert one.visit(PAGE, "odd=1; Path=/", meta={"dont_merge_cookies": True}) == ""
    await one.shared.share()
    await other.be_given("/1")
    sent = [other.visit(PAGE, meta={"cookiejar": key}) for key in (1, "1", None)]
    assert sent == ["sid=anna", "sid=berta", ""]


async def test_cookies_go_where_they_belong_and_nowhere_else(crawl: SharedCrawl) -> None:
    one, other = await two(crawl)
    one.visit(
        PAGE,
        "all=1; Domain=example.co.uk; Path=/",
        "here=1; Path=/",
        "safe=1; Path=/; Secure",
        "suffix=1; Domain=co.uk; Path=/",
        "foreign=1; Domain=evil.example; Path=/",
        f"large={'x' * LARGEST_COOKIE_BYTES}; Path=/",
    )
    await one.shared.share()
    await other.be_given("/1")
    assert sorted(other.visit(PAGE).split("; ")) == ["all=1", "here=1", "safe=1"]
    assert other.visit("http://api.example.co.uk/") == "all=1"
    assert other.visit("https://other.co.uk/") == other.visit("https://evil.example/") == ""


async def test_hosts_without_a_domain_have_cookies_too(crawl: SharedCrawl) -> None:
    one, other = await two(crawl)
    for host in ("http://localhost:81", "http://127.0.0.1:82"):
        one.visit(f"{host}/", "sid=1; Path=/")
        await one.shared.share()
        await other.be_given("/", host)
        assert other.visit(f"{host}/") == "sid=1"


async def test_nothing_new_is_neither_told_nor_asked_for(crawl: SharedCrawl) -> None:
    one, other = await two(crawl)
    for max_age_s in (3000, 3001):
        one.visit(PAGE, f"sid=1; Path=/; Max-Age={max_age_s}")
        await one.shared.share()
    await other.be_given("/1")
    told = changes_told(other.frontier.shards)
    assert crawl.shards <= told <= 2 * crawl.shards  # a minute may have begun in between
    calls = sum(shard.calls for shard in one.frontier.shards)
    one.visit(PAGE)
    await one.shared.share()
    assert sum(shard.calls for shard in one.frontier.shards) == calls


async def test_a_site_that_gives_cookies_without_end_keeps_its_latest(crawl: SharedCrawl) -> None:
    one, other = await two(crawl)
    for first in range(0, 3 * MOST_COOKIES, 60):
        one.visit(PAGE, *(f"c{first + number}=1; Path=/" for number in range(60)))
        await one.shared.share()
    for worker, path in ((one, "/1"), (other, "/2")):
        await worker.be_given(path)
        sent = {int(cookie[1:-2]) for cookie in worker.visit(PAGE).split("; ")}
        assert sent == set(range(2 * MOST_COOKIES, 3 * MOST_COOKIES))


async def test_what_others_have_put_there_harms_nobody(crawl: SharedCrawl) -> None:
    one, other = await two(crawl)
    one.visit(PAGE, "sid=1; Path=/")
    await one.shared.share()
    key = keys.cookies(CRAWL, 0)
    two_lines = msgpack.packb(["1\r\nHost: evil.test", False, None, False, False, False])
    foreign = (
        *(b"", b"\xc1", msgpack.packb(7), msgpack.packb(["a\0b", 1, "x", b"y"])),
        msgpack.packb(["\0www.shop.example.co.uk\0/\0sid", two_lines]),
    )
    for number, garbage in enumerate(foreign):
        await one.frontier.client.hset(key, "example.co.uk", garbage)
        await share(one.frontier.shards, {})
        await other.be_given(f"/{number}")
        assert other.visit(PAGE) == ""
    one.visit(PAGE, "sid=2; Path=/")
    await one.shared.share()
    await other.be_given("/again")
    assert other.visit(PAGE) == "sid=2"


@pytest.mark.parametrize(
    ("host", "given", "sent"),
    [
        ("www.shop.co.uk", "a=1; Domain=shop.co.uk", "a=1"),
        ("www.shop.co.uk", "a=1; Domain=co.uk", ""),
        ("me.github.io", "a=1; Domain=github.io", ""),
        ("localhost", "a=1", "a=1"),
        ("127.0.0.1", "a=1", "a=1"),
    ],
)
def test_where_cookies_are_not_shared_no_list_of_suffixes_is_fetched(
    host: str, given: str, sent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cookies, "_split_domain", None)  # Scrapy's, which asks the network
    middleware = CookiesMiddleware.from_crawler(get_crawler())
    first, second = Request(f"http://{host}/"), Request(f"http://{host}/")
    middleware.process_response(first, Response(first.url, headers={"Set-Cookie": given}))
    middleware.process_request(second)
    assert (second.headers.get("Cookie") or b"").decode() == sent
