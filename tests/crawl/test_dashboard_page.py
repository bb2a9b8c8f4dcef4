"""The dashboard's page in a real browser: it lives, it acts, and runs nothing that the web says."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, async_playwright, expect

from crawlproj.frontier import keys
from crawlproj.frontier.messages import Settlement
from tests.contract.shared_crawl import SharedCrawl, done, web
from tests.lua.helpers import CRAWL, MINUTE_MS, link
from tests.servers.dashboard import CHROMIUM_FLAGS, DashboardProcess
from tests.servers.debian import needed
from tests.servers.fleet import Fleet
from tests.servers.frontier import push_all
from tests.servers.origin import Origin, Reply
from tests.servers.redis import RedisServer

expect.set_options(timeout=30_000)  # a loaded machine takes seconds for a look
HOSTILE = "<img src=x onerror=\"document.title='hacked'\">"
PHONE = {"width": 360, "height": 740}
BEYOND = """
[...document.querySelectorAll("svg text")].filter((text) =>
  text.getBoundingClientRect().right > text.ownerSVGElement.getBoundingClientRect().right + 0.5
).map((text) => text.textContent)
"""
"""Labels of pictures that go beyond the right edge of theirs, where they are cut off."""
BEFORE_CELLS = """
[...document.querySelectorAll("table.cards td")].map(
  (cell) => getComputedStyle(cell, "::before").content.replaceAll('"', "")
)
"""
"""What the cells of tables begin with, their column's name, where a row is shown as a card."""


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    """A page of a new browser; an error in its scripts fails the test, and so does a request to
    anywhere but the dashboard."""
    chromium = needed("chromium")
    wrong: list[str] = []

    def look(request: Any) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "data:")):
            wrong.append(request.url)

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium, args=list(CHROMIUM_FLAGS)
        )
        page = await browser.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", look)
        yield page
        await browser.close()
    assert wrong == []


async def test_it_shows_what_happens_and_pauses_and_resumes_the_crawl(
    page: Page, tmp_path: Path, redis_server: RedisServer
) -> None:
    with redis_server.client() as client, DashboardProcess(tmp_path, redis_server.url) as dashboard:
        async with SharedCrawl(redis_server.url, client, 1) as crawl:
            mine = await crawl.join("w~1")
            await push_all(mine, web())
            await mine.renew(MINUTE_MS, {"timeout_ms": MINUTE_MS})
            await page.goto(dashboard.address)
            await page.get_by_role("link", name=CRAWL, exact=True).click()
            await expect(page.locator("#tile-pages")).to_contain_text("0")
            await expect(page.locator("#part-workers")).to_contain_text("alive")
            await done(mine, (await mine.lease(7)).leases)
            await expect(page.locator("#tile-pages")).to_contain_text("7")
            await page.get_by_role("button", name="Pause", exact=True).click()
            await expect(page.locator("#state")).to_have_text("paused")
            assert await mine.state() == "paused"
            await expect(page.locator("#said")).to_contain_text("paused")
            await page.get_by_role("button", name="Resume", exact=True).click()
            await expect(page.locator("#state")).to_have_text("running")
            assert await mine.state() == "running"
            await page.get_by_role("button", name="Stop", exact=True).click()
            await page.get_by_role("button", name="Cancel").click()
            assert await mine.state() == "running"
            await page.get_by_label("name contains").fill("h11")
            await expect(page.locator("#hosts-progress")).to_contain_text("1 of 12 hosts")
            await page.set_viewport_size(PHONE)  # type: ignore[arg-type]
            await page.reload()
            await expect(page.locator("#part-workers")).to_contain_text("alive")
            width = await page.evaluate("document.documentElement.scrollWidth")
            assert width <= PHONE["width"]


async def test_what_the_web_says_is_shown_and_never_run(
    page: Page, tmp_path: Path, redis_server: RedisServer
) -> None:
    with redis_server.client() as client, DashboardProcess(tmp_path, redis_server.url) as dashboard:
        async with SharedCrawl(redis_server.url, client, 1) as crawl:
            mine = await crawl.join("w~1")
            host = f"http://{HOSTILE}"
            await push_all(mine, [link(host, f"/{HOSTILE}{number}") for number in range(3)])
            [first] = (await mine.lease(1)).leases
            await mine.settle([(0, Settlement(first.token, "dead", reason=HOSTILE))])
            client.hincrby(keys.counts(CRAWL, 0), f"filtered:{HOSTILE}", 1)
            client.hincrby(keys.counts(CRAWL, 0), "discovered", 1)
            recent = [[1.0, 200, HOSTILE, f"{host}/{HOSTILE}"]]
            told = {"timeout_ms": MINUTE_MS, "host": HOSTILE, "recent": recent}
            await mine.renew(MINUTE_MS, told)
            await page.goto(f"{dashboard.address}#/{CRAWL}")
            for part in ("#part-workers", "#part-recent", "#part-errors", "#hosts-progress + div"):
                await expect(page.locator(part)).to_contain_text("<img src=x")
            await expect(page.locator("#t-dead")).to_be_visible()
            await page.get_by_label("URL", exact=True).fill(HOSTILE)
            await page.get_by_role("button", name="Look it up").click()
            await expect(page.locator("#why-answer")).to_contain_text("cannot be crawled")
            assert await page.locator("img").count() == 0
            assert "hacked" not in await page.title()


@pytest.mark.parametrize("width", [1280, PHONE["width"]])
async def test_a_click_on_the_head_of_a_column_orders_the_hosts_at_once_and_keeps_the_focus(
    page: Page, tmp_path: Path, redis_server: RedisServer, width: int
) -> None:
    with redis_server.client() as client, DashboardProcess(tmp_path, redis_server.url) as dashboard:
        async with SharedCrawl(redis_server.url, client, 1) as crawl:
            mine = await crawl.join("w~1")
            counts = {"http://b": 3, "http://a": 2, "http://c": 1}
            await push_all(
                mine, [link(host, f"/{n}") for host, count in counts.items() for n in range(count)]
            )
            await page.set_viewport_size({"width": width, "height": 740})
            await page.goto(f"{dashboard.address}#/{CRAWL}")
            hosts = page.locator("#hosts-progress + div")
            names = hosts.locator("tbody th")
            await expect(names).to_have_text(["http://b", "http://a", "http://c"])
            await hosts.get_by_role("button", name="host", exact=True).click()
            await expect(names).to_have_text(["http://a", "http://b", "http://c"])
            head = hosts.locator("thead th", has_text="host")
            await expect(head).to_have_attribute("aria-sort", "ascending")
            await expect(head.get_by_role("button")).to_be_focused()
            assert await hosts.locator("[aria-sort]").count() == 1


async def test_text_that_is_selected_stays_while_news_come(
    page: Page, tmp_path: Path, redis_server: RedisServer
) -> None:
    with redis_server.client() as client, DashboardProcess(tmp_path, redis_server.url) as dashboard:
        async with SharedCrawl(redis_server.url, client, 1) as crawl:
            mine = await crawl.join("w~1")
            await push_all(mine, web())
            told = {"timeout_ms": MINUTE_MS, "recent": [[1.0, 200, "", "http://h1/copied"]]}
            await mine.renew(MINUTE_MS, told)
            await page.goto(f"{dashboard.address}#/{CRAWL}")
            await page.locator("#part-recent tbody th").select_text()
            for pages in ("3", "6"):
                await done(mine, (await mine.lease(3)).leases)
                await expect(page.locator("#tile-pages")).to_contain_text(pages)
            assert await page.evaluate("String(getSelection())") == "http://h1/copied"


async def test_one_of_a_kind_is_named_in_the_singular(
    page: Page, tmp_path: Path, redis_server: RedisServer
) -> None:
    with redis_server.client() as client, DashboardProcess(tmp_path, redis_server.url) as dashboard:
        async with SharedCrawl(redis_server.url, client, 1) as crawl:
            mine = await crawl.join("w~1")
            await push_all(mine, [link("http://h1", "/")])
            await mine.lease(1)
            await mine.renew(MINUTE_MS, {"timeout_ms": MINUTE_MS})
            await page.goto(f"{dashboard.address}#/{CRAWL}")
            await expect(page.locator("#tile-workers small")).to_have_text("1 URL in hand")
            await expect(page.locator("#hosts-progress")).to_have_text("1 of 1 host")


async def test_reasons_are_told_in_words_and_files_that_were_read_are_not_among_them(
    page: Page, tmp_path: Path, redis_server: RedisServer
) -> None:
    with redis_server.client() as client, DashboardProcess(tmp_path, redis_server.url) as dashboard:
        async with SharedCrawl(redis_server.url, client, 1) as crawl:
            mine = await crawl.join("w~1")
            await push_all(mine, web())
            for reason in ("robots_txt", "offsite"):
                client.hincrby(keys.counts(CRAWL, 0), f"filtered:{reason}", 2)
                client.hincrby(keys.counts(CRAWL, 0), "discovered", 2)
            await page.goto(f"{dashboard.address}#/{CRAWL}")
            errors = page.locator("#part-errors")
            await expect(errors).to_contain_text("outside the scope that the seeds brought")
            await expect(errors).not_to_contain_text("robots_txt")
            await expect(page.locator("#tile-filtered")).to_contain_text("4")
            await expect(page.get_by_role("button", name="Retry these")).to_be_disabled()
            [first] = (await mine.lease(1)).leases
            await mine.settle([(0, Settlement(first.token, "dead", reason="http_404"))])
            await expect(errors).to_contain_text("the server answered with the status 404")
            await expect(page.get_by_role("button", name="Retry these")).to_be_enabled()


async def test_what_is_known_of_a_url_is_named_and_does_not_repeat_the_sentence(
    page: Page, tmp_path: Path, redis_server: RedisServer
) -> None:
    found = {"url": "http://h1/", "state": "queued", "text": "queued with priority 95", "ahead": 3}
    found |= {"priority": 95, "depth": 2, "host_next_s": 76.2, "at_least_s": 180.0, "referer": ""}
    with redis_server.client() as client, DashboardProcess(tmp_path, redis_server.url) as dashboard:
        async with SharedCrawl(redis_server.url, client, 1) as crawl:
            await push_all(await crawl.join("w~1"), web())
            await page.route("**/api/why/**", lambda route: route.fulfill(json=found))
            await page.goto(f"{dashboard.address}#/{CRAWL}")
            await page.get_by_label("URL", exact=True).fill("http://h1/")
            await page.get_by_role("button", name="Look it up").click()
            facts = page.locator("#part-why .facts")
            await expect(facts).to_have_text(
                "links away from a seed2next turn of its hostin 76 s"
                "its own turnin 3 min at the earliest"
            )


async def test_a_crawl_that_is_not_there_is_not_said_to_be_read(
    page: Page, tmp_path: Path, redis_server: RedisServer
) -> None:
    with DashboardProcess(tmp_path, redis_server.url) as dashboard:
        await page.goto(f"{dashboard.address}#/nowhere")
        await expect(page.locator("#away")).to_contain_text("There is no crawl nowhere yet.")
        await expect(page.locator("#main")).to_have_text("It is shown here as soon as it begins.")


async def test_on_a_phone_labels_are_whole_and_actions_stand_alone(
    page: Page, tmp_path: Path, redis_server: RedisServer
) -> None:
    with redis_server.client() as client, DashboardProcess(tmp_path, redis_server.url) as dashboard:
        async with SharedCrawl(redis_server.url, client, 1) as crawl:
            mine = await crawl.join("w~1")
            await push_all(mine, [link(f"http://h{number}", "/") for number in range(12)])
            [first, *others] = (await mine.lease(12)).leases
            await mine.settle([(0, Settlement(first.token, "dead", reason="http_404"))])
            await done(mine, others)
            client.hincrby(keys.counts(CRAWL, 0), "filtered:offsite", 2)
            client.hincrby(keys.counts(CRAWL, 0), "discovered", 2)
            await page.set_viewport_size(PHONE)  # type: ignore[arg-type]
            await page.goto(f"{dashboard.address}#/{CRAWL}")
            await expect(page.locator("svg text", has_text="2 filtered")).to_be_visible()
            beyond = await page.evaluate(BEYOND)
            assert beyond == []
            await expect(page.locator("table.cards .buttons")).to_be_visible()
            assert " " not in await page.evaluate(BEFORE_CELLS)


async def test_a_worker_that_is_killed_is_shown_as_late_before_it_counts_as_dead(
    page: Page, tmp_path: Path, fleet: Fleet, redis_url: str
) -> None:
    body = "".join(f"<a href=/{number}>x</a>" for number in range(300)).encode()
    routes = {"/": Reply(body=body), **{f"/{n}": Reply() for n in range(300)}}
    with Origin(routes) as origin, DashboardProcess(tmp_path, redis_url) as dashboard:
        quick = {"FRONTIER_LEASE_TIMEOUT": "6"}
        workers = [fleet.start(quick, seeds=origin.url("/"), delay="0.2") for _ in range(2)]
        await page.goto(f"{dashboard.address}#/site")
        alive = page.locator("#part-workers .state.alive")
        await expect(alive).to_have_count(2, timeout=30_000)
        workers[0].signal(signal.SIGKILL)
        await expect(page.locator("#part-workers .state.late")).to_have_count(1, timeout=20_000)
        await expect(page.locator("#tile-workers")).to_contain_text("1 late or silent")
