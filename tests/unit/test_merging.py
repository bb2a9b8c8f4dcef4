"""Parts of many workers, whole and torn, become one clean file of each kind."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlproj.items import FAILURE_COLUMNS, PAGE_COLUMNS, STATS_COLUMNS, utc_timestamp
from crawlproj.output import buckets, merge
from crawlproj.output.merge_report import KindReport

HEADER = ",".join(PAGE_COLUMNS) + "\r\n"


def page(url: str, second: int = 0, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(PAGE_COLUMNS, "")
    return row | {"url": url, "status": 200, "fetched_at": utc_timestamp(second)} | changes


def failure(url: str, second: int = 0) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(FAILURE_COLUMNS, "")
    return row | {"url": url, "reason": "timeout", "failed_at": utc_timestamp(second)}


def as_csv(*rows: dict[str, Any], header: bool = True) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    if header:
        writer.writerow(rows[0])
    writer.writerows(row.values() for row in rows)
    return text.getvalue().encode()


def as_jsonl(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def merged(folder: Path, **parts: bytes) -> dict[str, KindReport]:
    """Write the parts, named kind_worker_suffix, merge them, and report by file."""
    for name, content in parts.items():
        kind, worker, suffix = name.split("_")
        (folder / f"{kind}-{worker}-0001.{suffix}").write_bytes(content)
    return {report.file: report for report in merge.merge(folder, folder).kinds}


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def urls_of(path: Path) -> list[str]:
    return [row["url"] for row in rows_of(path)]


def test_rows_of_all_workers_are_in_one_file_by_time_with_one_header(tmp_path: Path) -> None:
    report = merged(
        tmp_path,
        pages_w1_csv=as_csv(page("http://a/", 3), page("http://b/", 1)),
        pages_w2_csv=as_csv(page("http://c/", 2), page("http://d/", 1)),
    )["pages.csv"]
    assert urls_of(tmp_path / "pages.csv") == ["http://b/", "http://d/", "http://c/", "http://a/"]
    assert (report.parts, report.rows, report.duplicates) == (2, 4, 0)


def test_of_rows_with_one_url_the_latest_wins_whichever_part_it_is_in(tmp_path: Path) -> None:
    old, new = page("http://a/", 1, title="old"), page("http://a/", 2, title="new")
    report = merged(
        tmp_path,
        pages_w1_csv=as_csv(new),
        pages_w2_csv=as_csv(old),
        pages_w1_jsonl=as_jsonl(old),
        pages_w2_jsonl=as_jsonl(new),
    )
    assert [row["title"] for row in rows_of(tmp_path / "pages.csv")] == ["new"]
    assert json.loads((tmp_path / "pages.jsonl").read_text("utf-8"))["title"] == "new"
    assert report["pages.csv"].duplicates == report["pages.jsonl"].duplicates == 1


def test_the_torn_last_row_of_a_killed_worker_is_left_out_at_every_byte(tmp_path: Path) -> None:
    whole = as_csv(page("http://a/", 1))
    last = as_csv(page("http://b/", 2, title='a "quoted", title\nof two lines'), header=False)
    other = as_csv(page("http://c/", 3, title='"'))
    for cut in range(1, len(last)):
        report = merged(tmp_path, pages_w1_csv=whole + last[:cut], pages_w2_csv=other)
        assert urls_of(tmp_path / "pages.csv") == ["http://a/", "http://c/"], last[:cut]
        assert report["pages.csv"].torn >= 1


def test_a_row_torn_in_the_middle_of_a_file_swallows_nothing(tmp_path: Path) -> None:
    torn = as_csv(page("http://torn/", 1, title="x, y"))
    later = as_csv(*(page(f"http://{n}/", n, title=f'"{n}", of') for n in range(10, 20)))
    for cut in range(len(HEADER) + 1, len(torn) - 2):
        report = merged(tmp_path, pages_w1_csv=torn[:cut] + later)["pages.csv"]
        assert report.rows == 10, torn[:cut]
        assert report.torn == 1, torn[:cut]
        assert report.malformed == 0


def test_a_torn_json_line_is_left_out_and_the_row_glued_to_it_is_kept(tmp_path: Path) -> None:
    first, second = as_jsonl(page("http://a/", 1)), as_jsonl(page("http://b/", 2))
    for cut in range(1, len(first) - 1):
        report = merged(tmp_path, pages_w1_jsonl=first[:cut] + second + first[:cut])
        lines = (tmp_path / "pages.jsonl").read_bytes().splitlines()
        assert [json.loads(line)["url"] for line in lines] == ["http://b/"], first[:cut]
        assert report["pages.jsonl"].torn == 2


@pytest.mark.parametrize(
    "line",
    [
        b"http://x/,200,too,few\r\n",
        b",".join([b"x"] * 15) + b"\r\n",
        b",".join([b"x"] * 14) + b"\r\n",
        b"\xff\xfe" + b"," * 13 + b"\r\n",
    ],
)
def test_rows_of_another_shape_are_counted_and_shown_by_line(tmp_path: Path, line: bytes) -> None:
    report = merged(tmp_path, pages_w1_csv=as_csv(page("http://a/")) + line)["pages.csv"]
    assert (report.rows, report.malformed, report.torn) == (1, 1, 0)
    assert report.examples == ["pages-w1-0001.csv, line 3: malformed"]


@pytest.mark.parametrize("line", [b"[]\n", b"3\n", b'{"url": 1}\n', b"[" * 100_000 + b"\n"])
def test_json_lines_that_are_no_rows_are_left_out(tmp_path: Path, line: bytes) -> None:
    report = merged(tmp_path, pages_w1_jsonl=line + as_jsonl(page("http://a/")))["pages.jsonl"]
    assert (report.rows, report.torn) == (1, 1)


def test_a_header_in_the_middle_of_a_part_is_no_row(tmp_path: Path) -> None:
    part = as_csv(page("http://a/", 1)) + as_csv(page("http://b/", 2))
    report = merged(tmp_path, pages_w1_csv=part)["pages.csv"]
    assert (report.rows, report.torn, report.malformed) == (2, 0, 0)


def test_a_failure_that_was_later_fetched_well_is_no_failure(tmp_path: Path) -> None:
    pages = [
        page("http://later/", 9),
        page("http://before/", 1),
        page("http://broken/", 9, status=404),
        page("http://moved/", 9, status=301),
    ]
    names = ("later", "before", "broken", "moved", "never")
    failures = [failure(f"http://{name}/", 5) for name in names]
    report = merged(tmp_path, pages_w1_jsonl=as_jsonl(*pages), failures_w1_csv=as_csv(*failures))
    left = {"http://before/", "http://broken/", "http://never/"}
    assert set(urls_of(tmp_path / "failures.csv")) == left
    assert report["failures.csv"].recovered == 2


def test_stats_are_one_row_a_worker_and_moment(tmp_path: Path) -> None:
    row = dict.fromkeys(STATS_COLUMNS, 0) | {"at": utc_timestamp(1), "worker": "w1"}
    part = as_csv(row, row, row | {"worker": "w2"}, row | {"at": utc_timestamp(2)})
    assert merged(tmp_path, stats_w1_csv=part)["stats.csv"].rows == 3


def test_a_second_merge_gives_the_same_files_and_never_reads_its_own(tmp_path: Path) -> None:
    parts = {
        "pages_w1_csv": as_csv(page("http://a/", 1), page("http://b/", 1)),
        "pages_w1_jsonl": as_jsonl(page("http://a/", 1)),
    }
    first = merged(tmp_path, **parts)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert merged(tmp_path) == first
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    results = {"pages.csv", "pages.jsonl", "failures.csv", "stats.csv"}
    assert set(before) == results | {"pages-w1-0001.csv", "pages-w1-0001.jsonl"}


def test_what_an_interrupted_merge_left_is_cleared_away(tmp_path: Path) -> None:
    (tmp_path / ".merging").mkdir()
    (tmp_path / ".merging" / "pages.csv").write_text("half")
    merged(tmp_path, pages_w1_csv=as_csv(page("http://a/")))
    assert not (tmp_path / ".merging").exists()


def test_two_merges_into_one_folder_do_not_mix(tmp_path: Path) -> None:
    (tmp_path / "pages-w1-0001.csv").write_bytes(as_csv(page("http://a/")))
    other = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(merge.MergeError, match=r"Another merge into .* is running: wait"):
            merge.merge(tmp_path, tmp_path)
    finally:
        os.close(other)


def test_an_empty_folder_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(merge.MergeError, match=r"Nothing to merge in .*: run the crawl first"):
        merge.merge(tmp_path / "missing", tmp_path)


def test_rows_in_many_buckets_come_out_as_from_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [page(f"http://{number % 300}/", number * 7 % 1000) for number in range(1000)]
    failures = [failure(f"http://{number}/", 0) for number in range(600)]
    parts = {"pages_w1_csv": as_csv(*pages), "failures_w1_csv": as_csv(*failures)}
    one = merged(tmp_path, **parts)
    from_one = (tmp_path / "pages.csv").read_bytes()
    monkeypatch.setattr(buckets, "BUCKET_BYTES", 1000)
    assert merged(tmp_path) == one
    assert (tmp_path / "pages.csv").read_bytes() == from_one
    assert one["pages.csv"].rows == one["failures.csv"].rows == one["failures.csv"].recovered == 300


def test_rows_that_were_dealt_out_again_come_out_as_from_one_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [page(f"http://{number % 300}/", number * 7 % 1000) for number in range(1000)]
    failures = [failure(f"http://{number}/", 0) for number in range(600)]
    same = [page("http://same/", number) for number in range(300)]
    parts = {"pages_w1_csv": as_csv(*pages, *same), "failures_w1_csv": as_csv(*failures)}
    one = merged(tmp_path, **parts)
    files = {name: (tmp_path / name).read_bytes() for name in ("pages.csv", "failures.csv")}
    limit_buckets(monkeypatch, 500, most=3)
    assert merged(tmp_path) == one
    assert {name: (tmp_path / name).read_bytes() for name in files} == files
    assert not (tmp_path / ".merging").exists()


def limit_buckets(monkeypatch: pytest.MonkeyPatch, size: int, most: int) -> None:
    monkeypatch.setattr(buckets, "BUCKET_BYTES", size)
    monkeypatch.setattr(buckets, "MOST_BUCKET_BYTES", 4 * size)
    monkeypatch.setattr(buckets, "MOST_BUCKETS", most)


def test_memory_does_not_grow_with_the_crawl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_buckets(monkeypatch, 50_000, most=4)

    def peak_bytes(pages: int) -> int:
        content = as_csv(*(page(f"http://{number}/", number) for number in range(pages)))
        (tmp_path / "pages-w1-0001.csv").write_bytes(content)
        del content
        tracemalloc.start()
        try:
            merge.merge(tmp_path, tmp_path)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak_bytes(12_000) < 2 * peak_bytes(2000)


def test_the_report_reads_well(tmp_path: Path) -> None:
    (tmp_path / "pages-w1-0001.csv").write_bytes(
        as_csv(page("http://a/"), page("http://a/")) + b"x"
    )
    text = merge.merge(tmp_path, tmp_path).to_text()
    assert text.splitlines()[1:4] == [
        "  pages.csv               1 row of 1 part",
        "                   left out 1 duplicate, 1 torn",
        "      pages-w1-0001.csv, line 4: torn",
    ]


@settings(max_examples=60, deadline=None)
@given(titles=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=6))
def test_any_title_survives_the_merge(
    tmp_path_factory: pytest.TempPathFactory, titles: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("titles")
    pages = [page(f"http://{n}/", n, title=title) for n, title in enumerate(titles)]
    merged(folder, pages_w1_csv=as_csv(*pages), pages_w1_jsonl=as_jsonl(*pages))
    assert [row["title"] for row in rows_of(folder / "pages.csv")] == titles
    lines = (folder / "pages.jsonl").read_bytes().split(b"\n")[:-1]
    assert [json.loads(line)["title"] for line in lines] == titles


def test_items_of_own_classes_are_merged_in_order_once_and_whole(tmp_path: Path) -> None:
    one, two, three = {"name": "=1"}, {"name": "two\u2028"}, {"other": [3]}
    reports = merged(
        tmp_path,
        items_a_jsonl=as_jsonl(two, one),
        items_b_jsonl=as_jsonl(one, three) + b'{"name": "torn',
    )
    lines = (tmp_path / "items.jsonl").read_bytes().split(b"\n")
    assert [json.loads(line) for line in lines[:-1]] == [two, one, three]
    report = reports["items.jsonl"]
    assert (report.parts, report.rows, report.duplicates, report.torn) == (2, 3, 1, 1)


@pytest.mark.parametrize(
    ("summary", "rows"),
    [
        ({"state": "finished", "reclaimed": 0, "late": 0}, 5),
        ({"state": "finished", "reclaimed": 1, "late": 0}, 2),
        ({"state": "running", "reclaimed": 0, "late": 0}, 2),
        ([], 2),
    ],
)
def test_items_that_are_alike_are_one_only_where_a_page_may_have_been_fetched_twice(
    tmp_path: Path, summary: Any, rows: int
) -> None:
    same, other = {"price": 6}, {"price": 7}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    reports = merged(
        tmp_path, items_a_jsonl=as_jsonl(same, same, other), items_b_jsonl=as_jsonl(same, same)
    )
    lines = (tmp_path / "items.jsonl").read_text().splitlines()
    assert len(lines) == reports["items.jsonl"].rows == rows
    assert {line: lines.count(line) for line in lines} == (
        {json.dumps(same): 4, json.dumps(other): 1}
        if rows == 5
        else {json.dumps(same): 1, json.dumps(other): 1}
    )


def test_no_file_of_items_is_made_where_there_are_none(tmp_path: Path) -> None:
    assert "items.jsonl" not in merged(tmp_path, pages_a_csv=as_csv(page("http://a.test/")))
    assert not (tmp_path / "items.jsonl").exists()
