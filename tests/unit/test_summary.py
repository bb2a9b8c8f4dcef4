"""The summary of a crawl, as data, as text and as files."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from crawlproj.output import summary
from crawlproj.output.summary import Summary

STARTED, FINISHED = "2025-01-31T09:00:00.000Z", "2025-01-31T09:14:10.000Z"
A_SUMMARY = Summary(
    crawl="site",
    epoch="3",
    state="finished",
    started_at=STARTED,
    finished_at=FINISHED,
    duration_s=250.0,
    pages_per_s=4.0,
    bytes=5_000_000,
    discovered=1250,
    done=1000,
    dead=50,
    duplicates=7000,
    filtered={"robots": 60, "scope": 140},
    statuses={"404": 50, "200": 950},
    hosts=2,
    workers=("w1", "w2"),
)


def test_a_summary_for_scripts_has_the_most_frequent_of_everything_first() -> None:
    built = summary.as_json(A_SUMMARY)
    assert list(built["filtered"]) == ["scope", "robots"]
    assert list(built["statuses"]) == ["200", "404"]
    assert (built["discovered"], built["hosts"]) == (1250, 2)
    assert list(built["workers"]) == ["w1", "w2"]


def test_a_crawl_that_found_nothing_has_a_summary_too() -> None:
    assert "0 done, 0 dead" in summary.to_text(Summary("site", None, "empty"))


def test_the_text_is_aligned_and_says_what_is_still_open() -> None:
    text = summary.to_text(replace(A_SUMMARY, state="stopped", queued=12, leased=3))
    assert "  still open    12 queued, 3 leased\n" in text
    assert "  speed         4.0 pages/s for 4 min 10 s\n" in text
    assert max(map(len, text.splitlines())) <= 80
    assert all(line == line.rstrip() for line in text.splitlines())


def test_a_crawl_that_nobody_works_at_is_told_with_what_goes_on_with_it() -> None:
    left, resume = replace(A_SUMMARY, state="running", queued=2), "scrapy crawl site"
    told = "Crawl site was interrupted; scrapy crawl site goes on with it\n"
    assert summary.to_text(left, resume).startswith(told)
    assert summary.to_text(left).startswith("Crawl site is running\n")
    short = summary.in_short(left, resume)
    assert short == "interrupted: 1,000 done, 50 dead, 2 left; scrapy crawl site goes on with it"


def test_one_url_and_one_more_link_are_told_in_the_singular() -> None:
    assert "1 URL, 1 more link to it\n" in summary.to_text(
        replace(A_SUMMARY, discovered=1, duplicates=1)
    )
    assert "1,250 URLs, 7,000 more links to them\n" in summary.to_text(A_SUMMARY)


def test_long_lists_are_cut_and_their_rest_is_added_up() -> None:
    reasons = {f"reason{number}": 100 - number for number in range(20)}
    lines = summary.to_text(replace(A_SUMMARY, reasons=reasons)).splitlines()
    rest = next(line for line in lines if "others" in line)
    assert rest.split()[:3] == ["12", "others", f"{sum(range(81, 93)):,}"]


def test_columns_line_up_for_long_names_and_large_figures() -> None:
    long, huge = "callback_" + "Exception" * 20, 1_234_567_890_123
    given = replace(
        A_SUMMARY, reasons={long: 5, "dns": 3}, statuses={"200": huge, "404": 7}, filtered={"x": 1}
    )
    lines = summary.to_text(given).splitlines()
    rows = [line for line in lines[lines.index("Filtered") :] if line.startswith("  ")]
    ends = {len(re.sub(r" *█*$", "", row)) for row in rows}
    assert len(rows) == 5 and len(ends) == 1, "\n".join(rows)
    assert max(map(len, lines)) <= 2 + 42 + 17 + 2 + 20


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (59.94, "59.9 s"),
        (60, "1 min 00 s"),
        (3599, "59 min 59 s"),
        (7380, "2 h 03 min"),
        (273_600, "3 d 04 h"),
    ],
)
def test_durations_read_well(seconds: float, text: str) -> None:
    assert summary.duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2e6, "2.0 MB"), (3e12, "3.0 TB")],
)
def test_sizes_read_well(count: float, text: str) -> None:
    assert summary.size(count) == text


def test_both_files_are_written_and_nothing_else_is_left(tmp_path: Path) -> None:
    built = replace(A_SUMMARY, reasons={"timeout \ud800": 1})
    summary.write(tmp_path / "site", built)
    summary.write(tmp_path / "site", built)
    names = sorted(path.name for path in (tmp_path / "site").iterdir())
    assert names == ["summary.json", "summary.txt"]
    assert json.loads((tmp_path / "site/summary.json").read_text("utf-8"))["done"] == 1000
    assert "Crawl site" in (tmp_path / "site/summary.txt").read_text("utf-8")
