"""Folders as crawls leave them, and their reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crawlproj.output.report.model import Report
from crawlproj.output.report.reading import read_report
from tests.unit.written_parts import as_csv, as_jsonl, failure, page

HTML = {"content_type": "text/html", "size": 100, "title": "A title", "worker": "w1"}


def html_page(url: str, second: int = 0, **changes: Any) -> dict[str, Any]:
    return page(
        url, second, **{**HTML, "title": url, "content_hash": url, "referer": "http://a/"} | changes
    )


def failed(url: str, **changes: Any) -> dict[str, Any]:
    known = {"status": 404, "kind": "permanent", "reason": "http_404", "worker": "w1"}
    return failure(url) | known | changes


def links(source: str, *targets: tuple[str, str], rel: str = "") -> dict[str, Any]:
    found = [{"target": target, "text": text, "rel": rel} for target, text in targets]
    return {"source": source, "fetched_at": "2026-01-01T00:00:00.000Z", "links": found}


def crawled(
    folder: Path,
    pages: list[dict[str, Any]],
    failures: list[dict[str, Any]] | None = None,
    table: list[dict[str, Any]] | None = None,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if pages:
        (folder / "pages-w1-0001.csv").write_bytes(as_csv(*pages))
    if failures:
        (folder / "failures-w1-0001.csv").write_bytes(as_csv(*failures))
    if table:
        (folder / "links-w1-0001.jsonl").write_bytes(as_jsonl(*table))
    return folder


def of(folder: Path, against: Path | None = None) -> Report:
    return read_report("site", [folder], against)


def cases(report: Report, name: str) -> list[Any]:
    return [row[0] for one in report.problems if one.name == name for row in one.cases.rows]


def with_each_problem(folder: Path) -> Path:
    """Of a crawl of a site with one case of each problem."""
    pages = [
        html_page("http://a/", referer=""),
        html_page("http://a/slow", 10, elapsed_ms=2_001, size=300),
        html_page("http://a/huge", 20, size=1_000_001),
        html_page("http://a/empty", 20, size=0, title=""),
        html_page("http://a/untitled", 20, title=""),
        html_page("http://a/one", 30, title="The same", content_hash="same"),
        html_page(
            "http://a/two",
            40,
            title="The same",
            content_hash="same",
            near_duplicate_of="http://a/one",
        ),
        html_page("http://a/file", 40, title="", content_type="application/pdf"),
        html_page("http://a/lonely", 50, referer=""),
        html_page("http://a/move", 60, status=301, redirect_to="http://a/move2", title=""),
        html_page("http://a/move2", 60, status=302, redirect_to="http://a/gone", title=""),
    ]
    failures = [
        failed("http://a/gone", referer="http://a/"),
        failed("http://a/busy", status=503, kind="transient", reason="http_503"),
        failed("http://a/round", status=301, reason="redirect_loop"),
        failed("http://down/", status=0, kind="transient", reason="dns"),
        failed("http://a/members", status=401, reason="http_401"),
        failed("http://a/odd", status=200, reason="callback_ValueError"),
    ]
    table = [
        links(
            "http://a/",
            ("http://a/gone", "gone"),
            ("http://a/move", "moved"),
            ("http://a/one", "1"),
            ("http://[::1/", "no URL"),
        ),
        links("http://a/one", ("http://a/move", "away"), ("http://a/", "home")),
        links("http://a/two", ("http://a/", "home")),
        links("http://a/move", ("http://a/move2", ""), rel="redirect"),
    ]
    table[0]["links"][-1]["error"] = "host"
    return crawled(folder, pages, failures, table)
