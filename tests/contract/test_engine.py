"""What crawlproj/engine/watch.py leans on in Scrapy: fails when a new Scrapy does it differently.

Everything is looked at twice: with the engine as Scrapy has it, and as crawlproj/engine has it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scrapy import version_info

from crawlproj.engine.versions import TESTED
from tests.servers.origin import RESET, Origin, Reply, Route
from tests.servers.redis import PATIENCE

ROOT = Path(__file__).parents[2]

ROUTES: dict[str, Route] = {
    "/page": Reply(body=b"<p>page"),
    "/reset": RESET,
    "/moved": Reply(status=302, headers={"Location": "/page"}),
    "/flaky": lambda request: Reply(status=503 if request.attempt == 1 else 200),
}


def probed(*mode: str) -> dict[str, Any]:
    """What the probe has printed after its crawl."""
    with Origin(ROUTES) as origin:
        command = [sys.executable, "-m", "tests.contract.engine_probe", origin.url(""), *mode]
        printed = subprocess.check_output(command, cwd=ROOT, text=True, timeout=60 * PATIENCE)
    found: dict[str, Any] = json.loads(printed)
    return found


@pytest.fixture(scope="module")
def both() -> dict[str, dict[str, Any]]:
    return {"scrapy": probed(), "quick": probed("quick")}


@pytest.fixture(params=["scrapy", "quick"])
def crawl(both: dict[str, dict[str, Any]], request: pytest.FixtureRequest) -> dict[str, Any]:
    return both[request.param]


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("callback", ["page"]),
        ("callback-error", ["page"]),
        ("unwanted", ["page"]),
        ("errback", ["missing"]),
        ("no-errback", ["missing"]),
        ("wanted", ["missing"]),
        ("dropped", ["page"]),
        ("failed", ["reset"]),
        ("redirect", ["moved", "page"]),
        ("retry", ["flaky", "flaky"]),
    ],
)
def test_the_end_of_a_request_is_told_once_whichever_way_it_went(
    crawl: dict[str, Any], name: str, ends: list[str]
) -> None:
    told = [event.split()[2] for event in crawl["events"] if event.startswith(f"end {name} ")]
    assert told == ends


def test_nothing_else_is_told_to_have_ended(crawl: dict[str, Any]) -> None:
    kinds = Counter(event.split()[0] for event in crawl["events"])
    assert kinds["end"] == 12


def test_a_request_ends_after_its_callback_and_its_items(crawl: dict[str, Any]) -> None:
    events = [event for event in crawl["events"] if event.split()[1] == "callback"]
    assert events[0] == "callback callback page"
    assert sorted(events[1:3]) == ["item callback", "parsed callback"]
    assert events[3:] == ["end callback page"]


def test_a_request_ends_after_its_errback(crawl: dict[str, Any]) -> None:
    events = crawl["events"]
    assert events.index("errback HttpError errback missing") < events.index("end errback missing")


def test_errors_of_the_download_are_told_before_the_end_and_only_those(
    crawl: dict[str, Any],
) -> None:
    events = crawl["events"]
    errors = [event for event in events if event.startswith("error ")]
    assert sorted(event.split()[2] for event in errors) == ["dropped", "failed"]
    assert "error IgnoreRequest dropped page" in errors
    for error in errors:
        _, _, name, path = error.split()
        assert events.index(error) < events.index(f"end {name} {path}")


def test_a_callback_is_told_of_before_it_begins_and_no_errback_is(crawl: dict[str, Any]) -> None:
    told = [event.split()[1:] for event in crawl["events"] if event.startswith("callback ")]
    assert sorted(told) == [
        ["callback", "page"],
        ["callback-error", "page"],
        ["redirect", "page"],
        ["retry", "flaky"],
        ["wanted", "missing"],
    ]
    assert crawl["events"].index("callback wanted missing") < crawl["events"].index("item wanted")


def test_an_item_of_no_page_passes_the_pipelines_that_are_named(crawl: dict[str, Any]) -> None:
    assert "item of-no-page" in crawl["events"]
    assert "item not-for-it" not in crawl["events"]


def test_the_spider_is_closed_with_the_first_reason_given(crawl: dict[str, Any]) -> None:
    assert crawl["reason"] == "told to"


def test_the_quick_engine_counts_what_scrapys_counts(both: dict[str, dict[str, Any]]) -> None:
    assert both["quick"]["counts"] == both["scrapy"]["counts"]
    assert both["quick"]["counts"]["downloader/request_count"] == 11


def test_the_engine_that_is_followed_step_by_step_is_the_one_installed() -> None:
    assert version_info[:2] in TESTED
