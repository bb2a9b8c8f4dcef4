"""Pages whose scripts are run, by a real Chromium, judged at the origin."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import psutil
import pytest
from scrapy import Request
from scrapy.exceptions import DownloadCancelledError
from scrapy.http import HtmlResponse, Response, TextResponse
from scrapy.statscollectors import StatsCollector
from scrapy.utils.test import get_crawler

from crawlproj.errors import BrowserFailed
from crawlproj.fetch.rendering import renderer
from crawlproj.fetch.rendering.browser import Browser
from crawlproj.fetch.rendering.renderer import Renderer
from crawlproj.operate.audit import RESOLUTION_S, smallest_slot_gap_s
from crawlproj.operate.request_log import most_concurrent
from tests.servers.debian import needed
from tests.servers.fleet import Fleet, Worker
from tests.servers.origin import Origin, Reply

DELAY_S = 0.1
JAVASCRIPT = {"Content-Type": "text/javascript"}
FRAME = b"<title>before</title><div id=root></div><script src=/app.js></script>"
APP = b"""
    const add = (to) => {
        const link = document.createElement("a");
        link.href = link.textContent = to;
        document.getElementById("root").appendChild(link);
    };
    const none = () => {};
    fetch("/data.json").then((reply) => reply.json()).then((found) => {
        found.forEach(add);
        document.title = "after";
    });
    fetch("/private/data.json").then(() => add("/secret"), none);
    fetch("/collect", {method: "POST", body: "x"}).catch(none);
    fetch("http://ELSEWHERE/data.json").then(() => add("/stolen"), none);
    new Image().src = "/pixel.gif";
    try { new WebSocket("ws://ELSEWHERE/").onerror = none; } catch (error) {}
    window.open("/popup");
"""


@pytest.fixture
def elsewhere() -> Iterator[Origin]:
    """Another host, which no user has named."""
    free = {"Access-Control-Allow-Origin": "*", "Content-Type": "application/json"}
    with Origin({}, default=Reply(headers=free, body=b"[]"), address="127.0.0.2") as origin:
        yield origin


@pytest.fixture
def site(elsewhere: Origin) -> Iterator[Origin]:
    app = APP.replace(b"ELSEWHERE", elsewhere.host.encode())
    routes = {
        "/robots.txt": Reply(body=b"User-agent: *\nDisallow: /private/"),
        "/": Reply(body=b"<a href=/plain>words</a>" * 4 + FRAME),
        "/shop": Reply(body=FRAME),
        "/app.js": Reply(headers=JAVASCRIPT, body=app),
        "/data.json": Reply(headers={"Content-Type": "application/json"}, body=b'["/a", "/b"]'),
        "/a": Reply(body=FRAME),
        "/b": Reply(body=b"<script>location = '/moved'</script>"),
        "/endless": Reply(body=b"<script>for (;;) {}</script>"),
    }
    with Origin(routes, default=Reply(body=b"<p>a page</p>")) as origin:
        yield origin


def start(fleet: Fleet, site: Origin, path: str = "/shop", **arguments: object) -> Worker:
    needed("chromium")
    given = {"seeds": site.url(path), "delay": DELAY_S, **arguments}
    return fleet.start({"CRAWL_RENDER_TIMEOUT": 20}, **given)


def test_links_that_only_scripts_make_are_followed_politely(
    fleet: Fleet, site: Origin, elsewhere: Origin
) -> None:
    start(fleet, site, render="auto")
    assert fleet.wait() == ["finished"]
    fleet.assert_settled()
    rows = {row["url"]: row["title"] for row in fleet.rows("pages")}
    assert rows == {site.url("/shop"): "after", site.url("/a"): "after"} | {
        site.url(path): "" for path in ("/b", "/moved")
    }
    asked = site.requests()
    assert sorted(entry.path for entry in asked) == sorted(
        ["/robots.txt", "/shop", "/a", "/b", "/moved", "/app.js", "/data.json", "/data.json"]
    )
    assert elsewhere.requests() == []
    assert (smallest_slot_gap_s(asked) or 0) >= DELAY_S - RESOLUTION_S
    assert most_concurrent(asked)[site.host] == 1


def test_without_rendering_they_are_not_there(fleet: Fleet, site: Origin) -> None:
    start(fleet, site)
    assert fleet.wait() == ["finished"]
    assert fleet.urls() == [site.url("/shop")]


def test_a_page_that_the_browser_fails_at_harms_neither_its_host_nor_other_pages(
    fleet: Fleet, site: Origin
) -> None:
    seeds = f"{site.url('/endless')},{site.url('/shop')}"
    needed("chromium")
    settings = {"CRAWL_RENDER_TIMEOUT": 2, "FRONTIER_MAX_ATTEMPTS": 1, "POLITENESS_GIVE_UP": 1}
    fleet.start(settings, seeds=seeds, delay=0, render="/(endless|shop)$")
    assert fleet.wait() == ["finished"]
    fleet.assert_settled()
    assert site.url("/a") in fleet.urls()
    failures = [(row["reason"], row["kind"]) for row in fleet.rows("failures")]
    assert failures == [("browser", "transient")]


async def test_a_browser_that_has_grown_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    browser = Browser(needed("chromium"), user_agent="test", most_pages=2, most_mb=1)
    try:
        for _ in range(2):
            async with browser.context() as context:
                page = await context.new_page()
                await page.set_content("<title>here</title>")
                assert await page.title() == "here"
    finally:
        await browser.close()
    assert caplog.text.count("The browser has grown") == 2


def test_a_worker_without_a_browser_says_what_to_install(fleet: Fleet, site: Origin) -> None:
    worker = fleet.start({"CRAWL_BROWSER": "no-such-browser"}, seeds=site.url(), render="auto")
    worker.wait()
    assert "no browser (no-such-browser): install Chromium" in worker.log
    assert "Traceback" not in worker.log


async def test_a_browser_whose_driver_has_died_is_replaced() -> None:
    browser = Browser(needed("chromium"), user_agent="test", most_pages=1, most_mb=5000)
    try:
        async with browser.context() as context:
            await context.new_page()
        for child in psutil.Process().children():
            if child.name().startswith("node"):
                child.kill()
                child.wait()
        with suppress(Exception):  # who finds out
            async with browser.context():
                pass
        async with browser.context() as context:
            await context.new_page()
    finally:
        await browser.close()


class Slow:
    """Fetches what pages ask for, one every so often."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.under_way = 0

    @property
    def begun(self) -> int:
        return len(self.asked)

    async def fetch(self, request: Request) -> Response:
        self.asked.append(request)
        self.under_way += 1
        try:
            await asyncio.sleep(0.2)
            return TextResponse(request.url, body=b"[]")
        finally:
            self.under_way -= 1


BUSY = b"<script>for (let i = 0; i < 60; i++) fetch('/' + i).catch(() => {});</script>"


@pytest.fixture
async def slow(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Slow, Renderer]]:
    settings = {"CRAWL_RENDER_TIMEOUT": 2, "CRAWL_RENDER_PAGES": 1, "DOWNLOAD_MAXSIZE": 100_000}
    fetched, crawler = Slow(), get_crawler(settings_dict=settings)
    crawler.stats = StatsCollector(crawler)
    needed("chromium")
    made = Renderer(crawler, "always", fetched.fetch)
    is_there = False
    while not is_there:  # its first page may take longer than all others may
        with suppress(BrowserFailed):
            await render(made, body=b"<p>the browser is there</p>")
            is_there = True
    monkeypatch.setattr(renderer, "GRACE_S", 2.0)
    yield fetched, made
    await made.close()


async def render(made: Renderer, number: int = 0, body: bytes = BUSY, **named: Any) -> Response:
    request = Request(f"http://h{number}.example/", **named)
    page = HtmlResponse(request.url, headers={"Content-Type": "text/html"}, body=body)
    return await made.render(request, page)


async def test_nothing_is_asked_for_a_page_that_is_taken_as_it_is(
    slow: tuple[Slow, Renderer],
) -> None:
    fetched, made = slow
    await render(made)
    assert fetched.begun > 1 and fetched.under_way == 0
    begun = fetched.begun
    await asyncio.sleep(0.5)
    assert fetched.begun == begun


async def test_what_a_page_asks_for_goes_the_way_that_the_page_came(
    slow: tuple[Slow, Renderer],
) -> None:
    fetched, made = slow
    way = {"proxy": "http://proxy.example:3128", "bindaddress": "10.0.0.1", "download_timeout": 5}
    login = {"Proxy-Authorization": "Basic eDp5"}
    await render(made, meta={**way, "cookiejar": 1}, headers=login)
    first = fetched.asked[-1]
    assert (first.meta, first.headers["Proxy-Authorization"]) == (way, b"Basic eDp5")


async def test_a_page_that_waits_for_its_place_in_the_browser_does_not_fail(
    slow: tuple[Slow, Renderer],
) -> None:
    _, made = slow
    rendered = await asyncio.gather(*(render(made, number) for number in range(5)))
    assert all("rendered" in response.flags for response in rendered)


GROWS = b"""<script>
    Object.defineProperty(Element.prototype, "outerHTML", {get: () => "small"});
    document.body.append(document.createComment("x".repeat(20e6)));
</script>"""


async def test_a_page_that_has_grown_too_large_stays_in_the_browser(
    slow: tuple[Slow, Renderer],
) -> None:
    _, made = slow
    tracemalloc.start()
    try:
        with pytest.raises(DownloadCancelledError, match="grew to 200"):
            await render(made, body=b"<body>" + GROWS)
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()


async def test_a_browser_that_dies_under_a_page_is_no_failure_of_the_download(
    slow: tuple[Slow, Renderer],
) -> None:
    fetched, made = slow
    page = asyncio.create_task(render(made))
    while not fetched.begun:
        await asyncio.sleep(0.01)
    for child in psutil.Process().children(recursive=True):
        if "chrom" in child.name():
            with suppress(psutil.NoSuchProcess):
                child.kill()
    with pytest.raises(BrowserFailed):
        await page
    assert "rendered" in (await render(made, body=b"<p>the next one</p>")).flags
