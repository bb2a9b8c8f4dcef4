"""The report's page in a real browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Page, async_playwright, expect

from crawlproj.output.report import reading
from crawlproj.output.report.model import Report
from crawlproj.output.report.page import to_html
from tests.servers.dashboard import CHROMIUM_FLAGS
from tests.servers.debian import needed
from tests.unit.written_crawls import crawled, html_page, of, with_each_problem


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return of(with_each_problem(tmp_path_factory.mktemp("output") / "site"))


@pytest.fixture
async def browser_page() -> AsyncIterator[Page]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=needed("chromium"), args=list(CHROMIUM_FLAGS)
        )
        yield await browser.new_page()
        await browser.close()


async def test_a_search_tells_how_many_of_the_shown_it_has_found(
    browser_page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_HOSTS", 12)
    folder = crawled(tmp_path / "site", [html_page(f"http://h{n:02}/") for n in range(30)])
    await browser_page.set_content(to_html(of(folder)))
    hosts = browser_page.locator("#hosts")
    await expect(hosts).to_contain_text("These are the first 12 of 30, by pages.")
    await expect(hosts.locator("pre")).to_contain_text("scrapy query site")
    search = hosts.get_by_role("searchbox")
    await search.fill("h29")
    await expect(hosts.get_by_role("status")).to_have_text("None of the 12 shown")
    await search.fill("h07")
    await expect(hosts.get_by_role("status")).to_have_text("1 of the 12 shown")


async def test_numbers_are_ordered_from_the_largest_on_and_the_first_order_is_marked(
    browser_page: Page, report: Report
) -> None:
    await browser_page.set_content(to_html(report))
    table = browser_page.locator("#pages table").first
    ms, size = table.locator("th", has_text="ms"), table.locator("th", has_text="bytes")
    await expect(ms).to_have_attribute("aria-sort", "descending")
    await size.get_by_role("button").click()
    await expect(size).to_have_attribute("aria-sort", "descending")
    await expect(table.locator("tbody tr").first).to_contain_text("http://a/huge")
    urls = await table.locator("tbody td.url").all_inner_texts()
    assert len(urls) == 9 and "http://a/move" not in urls


async def test_of_a_long_table_paper_has_the_first_rows_in_small_print(
    browser_page: Page, tmp_path: Path
) -> None:
    pages = [html_page(f"http://a/{n:02}", title="") for n in range(30)]
    await browser_page.set_content(to_html(of(crawled(tmp_path / "site", pages))))
    untitled = browser_page.locator("#missing_titles")
    await untitled.locator("summary").first.click()
    await expect(untitled.locator("tbody tr:visible")).to_have_count(30)
    await expect(untitled.get_by_text("On paper")).to_be_hidden()
    await browser_page.emulate_media(media="print")
    await expect(untitled.locator("tbody tr:visible")).to_have_count(20)
    await expect(untitled.get_by_text("On paper these are the first 20 of 30")).to_be_visible()
    cell = untitled.locator("td").first
    assert await cell.evaluate("x => parseFloat(getComputedStyle(x).fontSize)") < 11


async def test_on_a_phone_nothing_of_a_table_is_beyond_the_edge(
    browser_page: Page, report: Report
) -> None:
    await browser_page.set_viewport_size({"width": 360, "height": 740})
    await browser_page.set_content(to_html(report))
    ends = await browser_page.evaluate(
        "[...document.querySelectorAll('th, td')].map(x => x.getBoundingClientRect().right)"
    )
    assert len(ends) > 50 and max(ends) <= 360
