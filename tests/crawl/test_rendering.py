"""Pages whose scripts are run, by a real Chromium, judged at the origin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crawlproj.fetch.rendering.browser import Browser
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


def test_a_page_whose_scripts_never_end_harms_no_other(fleet: Fleet, site: Origin) -> None:
    seeds = f"{site.url('/endless')},{site.url('/shop')}"
    needed("chromium")
    settings = {"CRAWL_RENDER_TIMEOUT": 2, "FRONTIER_MAX_ATTEMPTS": 1}
    fleet.start(settings, seeds=seeds, delay=0, render="/(endless|shop)$")
    assert fleet.wait() == ["finished"]
    fleet.assert_settled()
    assert site.url("/a") in fleet.urls()
    assert [row["reason"] for row in fleet.rows("failures")] == ["timeout"]


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
