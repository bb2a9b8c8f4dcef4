"""The report of a crawl: what it finds in the files, and a page that is safe to open."""

from __future__ import annotations

import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from crawlproj.output.report import broken
from crawlproj.output.report.as_json import as_json
from crawlproj.output.report.model import Report
from crawlproj.output.report.page import to_html, write_page
from crawlproj.output.report.text import to_text
from tests.servers.debian import needed
from tests.unit.written_crawls import (
    cases,
    crawled,
    failed,
    html_page,
    links,
    of,
    with_each_problem,
)

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x00"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_each_problem(tmp_path_factory.mktemp("output") / "site")


@pytest.fixture(scope="module")
def report(folder: Path) -> Report:
    return of(folder)


@pytest.mark.parametrize(
    ("problem", "found"),
    [
        ("broken_links", ["http://a/gone", "http://[::1/"]),
        ("spider_errors", ["http://a/odd"]),
        ("login_links", ["http://a/members"]),
        ("unreachable_links", ["http://a/busy", "http://down/"]),
        ("failed_hosts", ["down"]),
        ("redirect_loops", ["http://a/round"]),
        ("redirect_chains", ["http://a/move"]),
        ("slow_pages", ["http://a/slow"]),
        ("huge_pages", ["http://a/huge"]),
        ("empty_pages", ["http://a/empty"]),
        ("missing_titles", ["http://a/untitled"]),
        ("duplicate_titles", ["The same"]),
        ("duplicate_pages", ["http://a/one"]),
        ("near_duplicates", ["http://a/one"]),
        ("unlinked_pages", ["http://a/lonely"]),
    ],
)
def test_each_problem_is_found_with_its_pages_and_no_others(
    report: Report, problem: str, found: list[str]
) -> None:
    assert cases(report, problem) == found


def test_a_broken_link_has_every_page_that_leads_to_it_through_redirects_too(
    report: Report,
) -> None:
    gone = next(one for one in as_json(report)["broken"] if one["url"] == "http://a/gone")
    assert gone["sources"] == ["http://a/", "http://a/one"]
    assert (gone["status"], gone["kind"], gone["reason"]) == (404, "permanent", "http_404")


def test_of_more_broken_links_than_are_kept_each_is_counted_for_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broken, "MOST_BROKEN", 3)
    passing = [failed(f"http://a/{n}", kind="transient", reason="timeout") for n in range(5)]
    found = of(crawled(tmp_path / "both", [], [*passing, failed("http://a/gone")]))
    counts = {one.name: one.cases.total for one in found.problems}
    assert (counts["broken_links"], counts["unreachable_links"]) == (1, 5)
    assert len(found.broken) == 3
    only = of(crawled(tmp_path / "one", [], passing))
    assert {one.name: one.cases.total for one in only.problems}["unreachable_links"] == 5


def test_without_a_link_table_a_broken_link_has_the_page_on_which_it_was_found(
    tmp_path: Path,
) -> None:
    folder = crawled(
        tmp_path / "site", [html_page("http://a/")], [failed("http://a/x", referer="http://a/")]
    )
    assert as_json(of(folder))["broken"][0]["sources"] == ["http://a/"]


def test_each_table_of_links_has_the_caption_of_its_own_problem(report: Report) -> None:
    shown = to_html(report)
    for title in ("Broken links", "Redirects in a circle", "Links that could not be had"):
        assert shown.count(f'<caption class="hidden">{title}</caption>') == 1


def test_the_json_has_what_scripts_rely_on(report: Report) -> None:
    found = as_json(report)
    assert found["totals"]["pages"] == 11
    assert found["totals"]["failures"] == 6
    refused = {"301": 2, "302": 1, "401": 1, "404": 1, "503": 1, "no response": 1}
    assert found["statuses"] == {"200": 10, **refused}
    assert found["redirects"][0] == {"url": "http://a/move", "status": 301, "to": "http://a/move2"}
    assert found["duplicates"] == [
        {"content_hash": "same", "count": 2, "urls": ["http://a/one", "http://a/two"]}
    ]
    assert found["slowest"][0]["url"] == "http://a/slow"
    assert found["largest"][0]["url"] == "http://a/huge"


def test_each_question_of_the_report_can_be_asked_by_query(tmp_path: Path) -> None:
    from crawlproj.output.query import Query
    from crawlproj.output.report.problems import CHECKS

    folder = crawled(tmp_path / "site", [html_page("http://a/")])
    for check in CHECKS:
        with Query(check.sql).answer([folder]) as answer:
            assert list(answer.batches) is not None


def test_the_question_beside_a_problem_has_its_cases_for_an_answer(
    folder: Path, report: Report
) -> None:
    from crawlproj.output.query import Query

    asked = [one for one in report.problems if one.sql]
    assert {"broken_links", "unreachable_links", "spider_errors"} <= {one.name for one in asked}
    for problem in asked:
        with Query(problem.sql).answer([folder]) as answer:
            found = {row[0] for batch in answer.batches for row in batch}
        assert found == set(cases(report, problem.name)), problem.name


def test_what_came_went_changed_broke_and_was_mended_is_told(tmp_path: Path) -> None:
    before = crawled(
        tmp_path / "before",
        [html_page("http://a/"), html_page("http://a/old"), html_page("http://a/edited")],
        [failed("http://a/mended"), failed("http://a/still")],
    )
    now = crawled(
        tmp_path / "now",
        [
            html_page("http://a/"),
            html_page("http://a/edited", content_hash="other"),
            html_page("http://a/mended"),
        ],
        [failed("http://a/still"), failed("http://a/old")],
    )
    found = as_json(of(now, before))
    assert {
        name: found[name] for name in ("added", "gone", "changed", "newly_broken", "mended")
    } == {
        "added": ["http://a/mended"],
        "gone": ["http://a/old"],
        "changed": ["http://a/edited"],
        "newly_broken": ["http://a/old"],
        "mended": ["http://a/mended"],
    }
    assert "       1  newly broken" in to_text(of(now, before))


def test_an_empty_crawl_has_a_report_too(tmp_path: Path) -> None:
    empty = of(crawled(tmp_path / "site", []))
    assert "No page was fetched" in to_text(empty)
    assert "No page was fetched" in to_html(empty)
    assert "No problems were found" not in to_text(empty) + to_html(empty)


def test_the_report_of_a_spider_without_rows_of_pages_goes_by_the_ledger(tmp_path: Path) -> None:
    folder = crawled(tmp_path / "books", [], [failed("http://a/busy", status=503)])
    counted = {"done": 8, "dead": 1, "bytes": 900, "hosts": 2, "workers": ["w1", "w2"]}
    statuses = {"200": 8, "503": 1}
    (folder / "summary.json").write_text(json.dumps({**counted, "statuses": statuses}))
    report = of(folder)
    assert to_text(report).startswith("Crawl site: 8 pages of 2 hosts, 900 B")
    assert (report.totals["workers"], report.statuses) == (2, statuses)
    assert cases(report, "failed_hosts") == []
    assert as_json(report)["hosts"] == [{"host": "a", "failed": 1}]
    shown = to_html(report)
    assert "Hosts at which something failed" in shown
    # Of pages that nobody has listed nothing is told, instead of that there are none.
    assert not any(part in shown for part in ("Slowest", "Types", "and failures <span"))


def test_a_crawl_whose_hosts_were_not_there_has_an_error(tmp_path: Path) -> None:
    folder = crawled(tmp_path / "site", [])
    filtered = {"robots": 2, "robots_unreachable": 3, "host_down": 4, "robots_txt": 1}
    (folder / "summary.json").write_text(json.dumps({"done": 0, "filtered": filtered}))
    found = {one.name: (one.severity.value, one.cases.total) for one in of(folder).problems}
    assert found == {"unreached": ("error", 7), "robots": ("notice", 2)}


def test_a_site_that_is_down_is_named_and_what_it_did_not_give_is_not_listed(
    tmp_path: Path,
) -> None:
    folder = crawled(tmp_path / "site", [], [failed("http://b/", status=0, kind="transient")])
    told = {"http://a:81": 4, "http://b": 1}
    summary = {"done": 0, "hosts": 3, "failed_hosts": told, "filtered": {"robots_unreachable": 1}}
    (folder / "summary.json").write_text(json.dumps(summary))
    report = of(folder)
    assert cases(report, "silent_hosts") == ["http://a:81"]
    assert cases(report, "failed_hosts") == ["b"]
    assert to_text(report).startswith("Crawl site: 0 pages of 3 hosts")
    shown = to_html(report)
    assert "<bdi>http://a:81</bdi>" in shown
    assert not any(part in shown for part in ("Slowest", "Largest", "Types", "away from a seed"))


def test_what_there_is_one_of_is_named_in_the_singular(report: Report) -> None:
    shown = to_html(report)
    assert "</span> Page without a title</summary>" in shown
    assert "</span> Broken links</summary>" in shown
    assert "·        1  Title that several pages share" in to_text(report)
    # The names that scripts may know stay as they are.
    titles = {one["name"]: one["title"] for one in as_json(report)["problems"]}
    assert titles["missing_titles"] == "Pages without a title"


def test_files_that_were_read_are_not_among_what_was_not_fetched(tmp_path: Path) -> None:
    folder = crawled(tmp_path / "site", [html_page("http://a/")])
    filtered = {"robots_txt": 25, "offsite": 3}
    (folder / "summary.json").write_text(json.dumps({"done": 1, "filtered": filtered}))
    shown = to_html(of(folder))
    assert "<bdi>offsite</bdi><small>outside the scope that the seeds brought</small>" in shown
    assert "robots_txt" not in shown
    assert as_json(of(folder))["filtered"] == filtered


def test_the_picture_of_the_course_has_numbers_and_a_table(report: Report) -> None:
    shown = to_html(report)
    assert 'aria-label="11 pages and 6 failures over time, at most 7 in one of 31 columns"' in shown
    assert "in each 2 s; the highest column stands for 7<" in shown
    assert "The same as a table" in shown and "1970-01-01 00:01:00</th>" in shown


def test_a_table_without_rows_says_so(tmp_path: Path) -> None:
    empty = to_html(of(crawled(tmp_path / "site", [])))
    assert '<table class="sortable">' not in empty and "<p>None.</p>" in empty


class Seen(HTMLParser):
    """What a browser would make of a page: its elements, and what they ask for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a crawl whose texts want to be something else."""
    pages = [
        html_page("http://a/", title=HOSTILE, referer="javascript:alert(3)"),
        html_page(f"http://a/{HOSTILE}", title=HOSTILE, size=0, content_type=HOSTILE, referer=""),
        html_page("javascript:alert(4)", title="", elapsed_ms=9_999),
    ]
    failures = [failed("javascript:alert(5)", referer=f"http://a/{HOSTILE}", reason=HOSTILE)]
    table = [links(f"http://a/{HOSTILE}", ("javascript:alert(5)", HOSTILE))]
    folder = tmp_path_factory.mktemp("output") / "site"
    return to_html(of(crawled(folder, pages, failures, table)))


def test_texts_of_the_web_stay_text(hostile: str) -> None:
    seen = Seen(hostile)
    assert seen.tags.count("script") == 1
    assert "img" not in seen.tags
    assert not [name for name, _ in seen.attributes if name.startswith("on")]
    assert not re.search("[\x00\u202e]", hostile)


def test_only_links_into_the_web_can_be_followed(hostile: str) -> None:
    targets = [value or "" for name, value in Seen(hostile).attributes if name == "href"]
    assert targets
    assert all(target.startswith(("http://", "https://", "#")) for target in targets)


def test_the_page_asks_nobody_for_anything(hostile: str) -> None:
    seen = Seen(hostile)
    assert not {"src", "srcset", "action"} & {name for name, _ in seen.attributes}
    assert not {"link", "iframe", "object", "form"} & set(seen.tags)
    assert "default-src 'none'" in hostile


def test_a_page_appears_whole_or_not_at_all(report: Report, tmp_path: Path) -> None:
    write_page(report, tmp_path / "report.html")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text().endswith("</html>")


def test_in_a_browser_tables_can_be_sorted_and_nothing_hostile_runs(
    hostile: str, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    file.write_text(hostile, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = [needed("chromium"), *options, profile, "--dump-dom", file.as_uri()]
    shown = subprocess.run(command, capture_output=True, check=True, timeout=120).stdout.decode()
    assert shown.count('<button type="button">') > 3, "its own script has not run"
    assert shown.count("<script>") == 1
