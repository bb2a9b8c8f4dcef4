"""Parts of many workers, whole and torn, become one clean file of each kind."""

from __future__ import annotations

import csv
import fcntl
import hashlib
import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from signal import SIGKILL
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlproj.errors import ConfigError
from crawlproj.items import PAGE_COLUMNS, STATS_COLUMNS, utc_timestamp
from crawlproj.output import merge
from crawlproj.output.database import DatabaseError
from crawlproj.output.folder import (
    FolderError,
    NothingThere,
    crawl_folders,
    epoch_of,
    prepare,
    sources_of,
)
from crawlproj.output.items_file import page_hash
from crawlproj.output.kinds import PAGES
from crawlproj.output.merge import Wish
from crawlproj.output.merge_report import FileReport, Intake, MergeReport
from crawlproj.output.parts import PartsError, copy_whole_rows
from crawlproj.output.refused import Refused, note_refused
from crawlproj.output.rows import harmless
from tests.unit.written_parts import as_csv, as_jsonl, failure, page

HEADER = ",".join(PAGE_COLUMNS) + "\r\n"


def merged(folder: Path, **parts: bytes) -> dict[str, FileReport]:
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


TORN = page("http://torn/", 2, title='a "quoted", title\nof two lines')


def whole_rows(tmp_path: Path, suffix: str, content: bytes) -> tuple[bytes, Intake]:
    """What is read of a part with care, and what is left out."""
    part, copy, intake = tmp_path / "part", tmp_path / "copy", Intake()
    part.write_bytes(content)
    copy_whole_rows(PAGES, suffix, part, copy, partial(intake.leave_out, part))
    return copy.read_bytes(), intake


def test_the_torn_last_row_of_a_killed_worker_is_left_out_at_every_byte(tmp_path: Path) -> None:
    whole, last = as_csv(page("http://a/", 1)), as_csv(TORN, header=False)
    for cut in range(1, len(last)):
        rows, intake = whole_rows(tmp_path, "csv", whole + last[:cut])
        assert rows == whole, last[:cut]
        assert intake.torn >= 1


@pytest.mark.parametrize("cut", [1, 30, -40, -22, -2, -1])
def test_a_part_that_was_torn_costs_its_last_row_alone(tmp_path: Path, cut: int) -> None:
    first, last = page("http://a/", 1), as_csv(TORN, header=False)
    report = merged(
        tmp_path,
        pages_w1_csv=as_csv(first) + last[:cut],
        pages_w2_csv=as_csv(page("http://c/", 3, title='"')),
        pages_w1_jsonl=as_jsonl(first) + as_jsonl(TORN)[:cut],
    )
    assert urls_of(tmp_path / "pages.csv") == ["http://a/", "http://c/"]
    assert report["pages.csv"].torn >= 1
    assert report["pages.jsonl"].torn == 1


def test_a_row_that_is_torn_in_one_format_is_taken_from_the_other(tmp_path: Path) -> None:
    rows = as_jsonl(page("http://a/", 1), TORN)
    report = merged(tmp_path, pages_w1_csv=as_csv(page("http://a/"))[:-9], pages_w1_jsonl=rows)
    assert urls_of(tmp_path / "pages.csv") == ["http://a/", "http://torn/"]
    assert report["pages.csv"].torn == 1


def test_zeros_that_a_power_cut_left_are_no_rows(tmp_path: Path) -> None:
    rows = [as_csv(page("http://a/", 1)), as_csv(page("http://b/", 2), header=False)]
    report = merged(tmp_path, pages_w1_csv=(b"\0" * 500).join([*rows, b""]))["pages.csv"]
    assert urls_of(tmp_path / "pages.csv") == ["http://a/", "http://b/"]
    assert report.torn == 2


def test_a_row_torn_in_the_middle_of_a_file_swallows_nothing(tmp_path: Path) -> None:
    torn = as_csv(page("http://torn/", 1, title="x, y"))
    later = as_csv(*(page(f"http://{n}/", n, title=f'"{n}", of') for n in range(10, 20)))
    for cut in range(len(HEADER) + 1, len(torn) - 2):
        rows, intake = whole_rows(tmp_path, "csv", torn[:cut] + later)
        assert rows.count(b"http://") == 10, torn[:cut]
        assert (intake.torn, intake.malformed) == (1, 0), torn[:cut]
    for cut in (len(HEADER) + 1, len(torn) - 25):
        report = merged(tmp_path, pages_w1_csv=torn[:cut] + later)["pages.csv"]
        assert (report.rows, report.torn, report.malformed) == (10, 1, 0), torn[:cut]


def test_a_torn_json_line_is_left_out_and_the_row_glued_to_it_is_kept(tmp_path: Path) -> None:
    first, second = as_jsonl(page("http://a/", 1)), as_jsonl(page("http://b/", 2))
    for cut in range(1, len(first) - 1):
        rows, intake = whole_rows(tmp_path, "jsonl", first[:cut] + second + first[:cut])
        assert (rows, intake.torn) == (second, 2), first[:cut]
    report = merged(tmp_path, pages_w1_jsonl=first[:50] + second + first[:50])
    assert urls_of(tmp_path / "pages.csv") == ["http://b/"]
    assert report["pages.jsonl"].torn == 2


@pytest.mark.parametrize(
    "line",
    [
        b"http://x/,200,too,few\r\n",
        b",".join([b"x"] * (len(PAGE_COLUMNS) + 1)) + b"\r\n",
        b",".join([b"x"] * len(PAGE_COLUMNS)) + b"\r\n",
        b"\xff\xfe" + b"," * (len(PAGE_COLUMNS) - 1) + b"\r\n",
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


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_damaged_rows_of_several_parts_are_counted_once(tmp_path: Path, suffix: str) -> None:
    write = as_csv if suffix == "csv" else as_jsonl
    parts = {
        f"pages_w{n}_{suffix}": write(page(f"http://{n}/", n), page("", n)) for n in range(1, 4)
    }
    report = merged(tmp_path, **parts)[f"pages.{suffix}"]
    assert (report.rows, report.torn + report.malformed) == (3, 3)


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
    results = {"pages.csv", "pages.jsonl", "failures.csv", "stats.csv", "manifest.json"}
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


def test_a_crawl_that_fetched_nothing_gives_files_without_rows(tmp_path: Path) -> None:
    prepare(tmp_path / "site", "epoch")
    report = merge.merge(tmp_path / "site", tmp_path, Wish(("csv", "jsonl", "parquet")))
    assert {file.rows for file in report.kinds} == {0}
    assert report.to_text().splitlines()[0].endswith("no rows, the crawl has left none")
    assert (tmp_path / "pages.csv").read_text().strip() == ",".join(PAGE_COLUMNS)
    found = duckdb.sql(f"SELECT * FROM '{tmp_path / 'pages.parquet'}'")
    assert (tuple(found.columns), found.fetchall()) == (PAGE_COLUMNS, [])


def test_a_crawl_without_files_is_told_from_those_that_have_some(tmp_path: Path) -> None:
    with pytest.raises(NothingThere, match="run the crawl first"):
        crawl_folders(tmp_path, "site")
    for name in ("docs", "site"):
        prepare(tmp_path / name, "epoch")
    assert crawl_folders(tmp_path, "site") == [tmp_path / "site"]
    with pytest.raises(NothingThere, match=r"did you mean site\?"):
        crawl_folders(tmp_path, "sitte")
    with pytest.raises(NothingThere, match="there are docs, site"):
        crawl_folders(tmp_path, "elsewhere")


@contextmanager
def full_disk() -> Iterator[None]:
    """A disk that takes no byte more."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def test_merging_onto_a_full_disk_says_so_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "pages-w-0001.csv").write_bytes(as_csv(page("http://a/")))
    with full_disk(), pytest.raises(DatabaseError, match=r"^[^\n]+ cannot be written to: [^\n]+$"):
        merge.merge(tmp_path, tmp_path / "out")


def test_a_full_disk_does_not_make_a_folder_forget_whose_files_it_has(tmp_path: Path) -> None:
    prepare(tmp_path, "one")
    (tmp_path / "pages-w1-0001.csv").write_bytes(as_csv(page("http://a/")))
    with full_disk():
        prepare(tmp_path, "one")  # a worker that resumes
        with pytest.raises(OSError, match="too large"):
            prepare(tmp_path, "two")
    assert epoch_of(tmp_path) == "one"
    (tmp_path / "pages-w1-0002.csv").write_bytes(as_csv(page("http://a/")))
    prepare(tmp_path, "two")
    earlier = {path.name for path in (tmp_path / "earlier-one").iterdir()}
    assert earlier == {"pages-w1-0001.csv", "pages-w1-0002.csv"}
    assert epoch_of(tmp_path) == "two"


def test_the_report_reads_well(tmp_path: Path) -> None:
    (tmp_path / "pages-w1-0001.csv").write_bytes(
        as_csv(page("http://a/"), page("http://a/")) + b"x"
    )
    text = merge.merge(tmp_path, tmp_path).to_text()
    assert text.splitlines()[1:4] == [
        "  pages.csv                   1 row of 1 part",
        "                       left out 1 duplicate, 1 torn",
        "      pages-w1-0001.csv, line 4: torn",
    ]


HOSTILE = st.sampled_from(["=", "'", "'=", "\n", "\r", '"', "\0", "\u2028", "\u202eא", "😀", "＝"])
TITLES = st.lists(
    st.lists(HOSTILE | st.text(st.characters(exclude_categories=["Cs"]), max_size=3)).map("".join),
    min_size=1,
    max_size=20,
)


@settings(max_examples=12, deadline=None)
@given(titles=TITLES)
def test_any_title_survives_the_merge_in_every_format(
    tmp_path_factory: pytest.TempPathFactory, titles: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("titles")
    pages = [page(f"http://{n}/", n, title=title) for n, title in enumerate(titles)]
    safe = [one | {"title": harmless(one["title"])} for one in pages]
    (folder / "pages-a-1.csv").write_bytes(as_csv(*safe))
    merge.merge(folder, folder / "of_csv", Wish(("csv", "jsonl", "parquet")))
    (folder / "pages-a-1.csv").unlink()
    (folder / "pages-a-1.jsonl").write_bytes(as_jsonl(*pages))
    merge.merge(folder, folder / "of_jsonl", Wish(("csv", "jsonl", "parquet")))
    for out in ("of_csv", "of_jsonl"):
        cells = [row["title"] for row in rows_of(folder / out / "pages.csv")]
        assert cells == [one["title"] for one in safe]
        lines = (folder / out / "pages.jsonl").read_bytes().split(b"\n")[:-1]
        assert [json.loads(line)["title"] for line in lines] == titles
        assert parquet(folder / out / "pages.parquet", "title") == [(title,) for title in titles]


def parquet(path: Path, columns: str = "*") -> list[tuple[Any, ...]]:
    return duckdb.sql(f"SELECT {columns} FROM read_parquet('{path}')").fetchall()


def test_parquet_has_numbers_and_times_as_such(tmp_path: Path) -> None:
    made = page("http://a/", 1, priority=90.5, depth=2)
    (tmp_path / "pages-a-1.csv").write_bytes(as_csv(made))
    merge.merge(tmp_path, tmp_path, Wish(("parquet",)))
    types = dict(
        duckdb.sql(f"SELECT name, type FROM parquet_schema('{tmp_path}/pages.parquet')").fetchall()
    )
    assert (types["status"], types["priority"], types["url"]) == ("INT64", "DOUBLE", "BYTE_ARRAY")
    [found] = parquet(tmp_path / "pages.parquet", "depth, priority, epoch_ms(fetched_at)")
    assert found == (2, 90.5, 1000)


def test_every_format_of_every_kind_has_the_same_rows(tmp_path: Path) -> None:
    (tmp_path / "failures-a-1.csv").write_bytes(as_csv(failure("http://a/"), failure("http://b/")))
    report = merge.merge(tmp_path, tmp_path, Wish(("csv", "jsonl", "parquet")))
    rows = {each.file: each.rows for each in report.kinds}
    assert rows == {
        f"{kind}.{suffix}": 2 if kind == "failures" else 0
        for kind in ("pages", "failures", "stats")
        for suffix in ("csv", "jsonl", "parquet")
    }
    lines = (tmp_path / "failures.jsonl").read_text().splitlines()
    assert [json.loads(line)["url"] for line in lines] == ["http://a/", "http://b/"]
    assert parquet(tmp_path / "failures.parquet", "url") == [("http://a/",), ("http://b/",)]


def test_the_row_of_the_last_lease_counts_whatever_the_clocks_say(tmp_path: Path) -> None:
    settled = page("http://a/", 1, lease=7, title="settled")
    lost = page("http://a/", 600, lease=3, title="of a worker that died, its clock ahead")
    merged(tmp_path, pages_w1_csv=as_csv(lost), pages_w2_csv=as_csv(settled))
    assert [row["title"] for row in rows_of(tmp_path / "pages.csv")] == ["settled"]


def test_parts_of_another_version_have_their_columns_read_by_name(tmp_path: Path) -> None:
    old = {name: page("http://old/", 1)[name] for name in PAGE_COLUMNS[:-2]}
    new = page("http://new/", 2) | {"newer": "=x"}
    turned = dict(reversed(page("http://turned/", 3, title="t").items()))
    report = merged(
        tmp_path, pages_w1_csv=as_csv(old), pages_w2_csv=as_csv(new), pages_w3_csv=as_csv(turned)
    )["pages.csv"]
    assert (report.rows, report.malformed, report.torn) == (3, 0, 0)
    rows = rows_of(tmp_path / "pages.csv")
    assert tuple(rows[0]) == (*PAGE_COLUMNS, "newer")
    assert [(row["url"], row["title"], row["newer"]) for row in rows] == [
        ("http://old/", "", ""),
        ("http://new/", "", "'=x"),
        ("http://turned/", "t", ""),
    ]


def test_the_parts_of_several_machines_are_one_crawl(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        folder = tmp_path / f"m[{number}]*" / "site"
        folder.mkdir(parents=True)
        (folder / "pages-same_name-0001.csv").write_bytes(
            as_csv(page(f"http://{number}/", number), page("http://all/", 10 + number))
        )
    own = tmp_path / "m[1]*" / "site"
    (tmp_path / "m[2]*" / "site" / "pages-linked-0001.csv").symlink_to(
        own / "pages-same_name-0001.csv"
    )
    sources = sources_of(own, [str(tmp_path / "m[2]*" / "site"), str(tmp_path / "m[3]*")])
    report = merge.merge(sources, tmp_path / "out")
    assert [row.parts for row in report.kinds if row.file == "pages.csv"] == [3]
    assert urls_of(tmp_path / "out" / "pages.csv") == [f"http://{n}/" for n in (1, 2, 3, "all")]
    assert "of 3 folders" in report.to_text()


def test_folders_of_other_crawls_beside_it_do_not_hide_a_crawl(tmp_path: Path) -> None:
    own, output = tmp_path / "site", tmp_path / "second"
    for folder in (own, output / "site", output / "linkcheck-example.com"):
        folder.mkdir(parents=True)
    (output / "site" / "pages-w-0001.csv").write_bytes(as_csv(page("http://a/")))
    assert sources_of(own, [str(output)]) == [own, output / "site"]


def test_a_given_folder_without_anything_of_a_crawl_is_refused(tmp_path: Path) -> None:
    (tmp_path / "second" / "elsewhere").mkdir(parents=True)
    with pytest.raises(ConfigError, match="second: nothing of a crawl; give a folder that holds"):
        sources_of(tmp_path / "site", [str(tmp_path / "second")])


def test_folders_of_two_crawls_are_not_mixed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".epoch").write_text(name)
    with pytest.raises(FolderError, match="are of two crawls"):
        sources_of(tmp_path / "a", [str(tmp_path / "b")])
    with pytest.raises(ConfigError, match="no such folder"):
        sources_of(tmp_path / "a", [str(tmp_path / "c")])


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("nowhere")])
def test_a_part_that_is_no_file_is_said_so(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "pages-a-0001.csv")
    with pytest.raises(PartsError, match=r"pages-a-0001.csv is no file"):
        merge.merge(tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("sort", "urls"),
    [("url", "abc"), ("-url", "cba"), ("size", "cab"), ("-size", "bac"), ("attempts", "bca")],
)
def test_rows_are_sorted_as_asked(tmp_path: Path, sort: str, urls: str) -> None:
    rows = [page("a", 3, size=5), page("b", 1, size=20), page("c", 2, size=1)]
    (tmp_path / "pages-w-0001.csv").write_bytes(as_csv(*rows))
    merge.merge(tmp_path, tmp_path, Wish(sort=sort))
    assert "".join(urls_of(tmp_path / "pages.csv")) == urls


@pytest.mark.parametrize(
    ("wish", "complaint"),
    [
        (Wish(("xml",)), "--format xml: one or more of csv,jsonl,parquet"),
        (Wish(sort="-colour"), "--sort -colour: no such column; there are anchors, at,"),
    ],
)
def test_what_cannot_be_is_said_at_once(wish: Wish, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        wish.check()


def test_the_manifest_has_rows_and_hashes_of_what_was_made(tmp_path: Path) -> None:
    merged(tmp_path, pages_w1_csv=as_csv(page("http://a/"), page("http://b/")))
    found = json.loads((tmp_path / "manifest.json").read_text())
    [part] = found["parts"]
    size = (tmp_path / part["part"]).stat().st_size
    assert part == {"folder": str(tmp_path), "part": "pages-w1-0001.csv", "bytes": size}
    about = {file["file"]: file for file in found["files"]}["pages.csv"]
    content = (tmp_path / "pages.csv").read_bytes()
    assert (about["rows"], about["bytes"]) == (2, len(content))
    assert about["sha256"] == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("step", [1, 3, 5])
def test_a_merge_that_was_killed_and_started_again_gives_the_same_bytes(
    tmp_path: Path, step: int
) -> None:
    rows = [page(f"http://{n}/", n * 37 % 500, title="=t") for n in range(2000)]
    (tmp_path / "pages-a-0001.csv").write_bytes(as_csv(*rows[:1200]))
    (tmp_path / "pages-b-0001.csv").write_bytes(as_csv(*rows[800:]))
    wish = Wish(("csv", "jsonl", "parquet"))
    merge.merge(tmp_path, tmp_path / "whole", wish)
    killed = tmp_path / "killed"
    if not (child := os.fork()):
        steps = iter(range(1, 100))
        merge.merge(
            tmp_path,
            killed,
            wish,
            watch=lambda *_: os.kill(os.getpid(), SIGKILL) if next(steps) == step else None,
        )
        os.abort()
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == SIGKILL
    assert (killed / ".merging").exists()
    merge.merge(tmp_path, killed, wish)
    files = {path.name: path.read_bytes() for path in killed.iterdir()}
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
    assert len(files) == 10


def test_links_are_a_row_a_page_in_json_and_a_row_a_link_elsewhere(tmp_path: Path) -> None:
    def line(source: str, second: int, *targets: str) -> dict[str, Any]:
        links = [{"target": target, "text": "=x", "rel": "nofollow"} for target in targets]
        return {"source": source, "fetched_at": utc_timestamp(second), "links": links}

    (tmp_path / "links-a-0001.jsonl").write_bytes(
        as_jsonl(line("http://a/", 1, "http://old/"), line("http://b/", 2)) + b'{"source": "ht'
    )
    (tmp_path / "links-b-0001.jsonl").write_bytes(
        as_jsonl(line("http://a/", 3, "http://1/", "http://2/"))
    )
    report = merge.merge(tmp_path, tmp_path, Wish(("csv", "jsonl", "parquet")))
    rows = {each.file: (each.rows, each.torn) for each in report.kinds if "links" in each.file}
    assert rows == {"links.csv": (2, 1), "links.jsonl.zst": (2, 1), "links.parquet": (2, 1)}
    assert [
        (row["source"], row["target"], row["text"]) for row in rows_of(tmp_path / "links.csv")
    ] == [
        ("http://a/", "http://1/", "'=x"),
        ("http://a/", "http://2/", "'=x"),
    ]
    assert parquet(tmp_path / "links.parquet", "target, text, rel") == [
        ("http://1/", "=x", "nofollow"),
        ("http://2/", "=x", "nofollow"),
    ]


def test_items_become_columns_of_the_types_that_they_have(tmp_path: Path) -> None:
    items = [{"name": "=a", "price": 1, "tags": ["x"]}, {"price": 2.5, "more": {"deep": None}}]
    (tmp_path / "items-a-0001.jsonl").write_bytes(as_jsonl(*items))
    merge.merge(tmp_path, tmp_path, Wish(("csv", "parquet")))
    assert rows_of(tmp_path / "items.csv") == [
        {"name": "'=a", "price": "1", "tags": '["x"]', "more": ""},
        {"name": "", "price": "2.5", "tags": "", "more": '{"deep":null}'},
    ]
    assert parquet(tmp_path / "items.parquet", "name, price, tags") == [
        ("=a", 1.0, ["x"]),
        (None, 2.5, None),
    ]
    assert not (tmp_path / "items.jsonl").exists()


@pytest.mark.parametrize(
    "items", [[[1], 2], [{"a": 1}, {"A": 2}], [{str(n): n} for n in range(300)]]
)
def test_items_that_make_no_columns_are_one_column_of_json(
    tmp_path: Path, items: list[Any]
) -> None:
    (tmp_path / "items-a-0001.jsonl").write_bytes(as_jsonl(*items))
    merge.merge(tmp_path, tmp_path, Wish(("csv", "parquet")))
    assert [json.loads(row["json"]) for row in rows_of(tmp_path / "items.csv")] == items
    assert [json.loads(one) for (one,) in parquet(tmp_path / "items.parquet")] == items


def test_items_of_a_page_that_was_fetched_twice_are_there_once_and_alike_ones_stay_two(
    tmp_path: Path,
) -> None:
    same, other = {"price": 6}, {"price": 7}
    died, lives = tmp_path / "items-died-0001", tmp_path / "items-lives-0001"
    died.with_suffix(".jsonl").write_bytes(as_jsonl(same, same, other, same))
    died.with_suffix(".leases").write_bytes(b"1 aa\n1 aa\n1 aa\n2 bb\n")
    lives.with_suffix(".jsonl").write_bytes(as_jsonl(same, same, other, same))
    lives.with_suffix(".leases").write_bytes(b"3 aa\n3 aa\n4 cc\n3 aa\n")
    report = merge.merge(tmp_path, tmp_path).kinds[-1]
    lines = (tmp_path / "items.jsonl").read_text().splitlines()
    # Of page aa the three of its second lease; of bb and cc, which nobody fetched again, theirs.
    assert [json.loads(line) for line in lines] == [same, same, same, other, same]
    assert (report.rows, report.duplicates) == (5, 3)


def test_items_and_failures_are_known_by_their_request_and_in_older_parts_by_their_url(
    tmp_path: Path,
) -> None:
    url = page_hash("http://a/")
    requests = [f"{url}{n:016x}" for n in range(2)]
    parts = {
        "old-1": ({"n": 1}, f"1 {url}"),
        "old-2": ({"n": 2}, f"2 {url}"),
        "new-1": ({"n": 3}, f"3 {requests[0]}"),
        "new-2": ({"n": 4}, f"4 {requests[1]}"),
        "new-3": ({"n": 5}, f"5 {requests[1]}"),
        "new-4": ({"n": 6}, f"6 {requests[1]}"),
    }
    for name, (item, lease) in parts.items():
        part = tmp_path / f"items-{name}.jsonl"
        part.write_bytes(as_jsonl(item))
        part.with_suffix(".leases").write_text(f"{lease}\n")
    note_refused(tmp_path, "w1", [Refused("http://a/", 6)])
    old = {name: value for name, value in failure("http://a/", 1).items() if name != "request"}
    posts = [failure("http://a/", at) | {"request": request} for at, request in enumerate("xyy", 2)]
    merged(
        tmp_path,
        failures_old_csv=as_csv(old, old | {"worker": "other"}),
        failures_new_csv=as_csv(*posts),
    )
    items = [json.loads(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    assert sorted(item["n"] for item in items) == [2, 3, 5]
    assert [row["request"] for row in rows_of(tmp_path / "failures.csv")] == ["", "x", "y"]


def test_of_failures_of_one_url_those_are_left_out_whose_request_was_forgotten(
    tmp_path: Path,
) -> None:
    urls = ("http://a/", "http://old/")
    posts = [failure(url) | {"request": request} for url in urls for request in "xy"]
    (tmp_path / "forgotten-1.csv").write_bytes(
        as_csv({"url": urls[0], "forgotten_at": utc_timestamp(9), "request": "x"})
    )
    (tmp_path / "forgotten-2.csv").write_bytes(
        as_csv({"url": urls[1], "forgotten_at": utc_timestamp(9)})
    )
    merged(tmp_path, failures_w1_csv=as_csv(*posts))
    rows = rows_of(tmp_path / "failures.csv")
    assert [(row["url"], row["request"]) for row in rows] == [("http://a/", "y")]


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


def test_no_file_of_pages_is_made_of_a_spider_that_has_items_alone(tmp_path: Path) -> None:
    reports = merged(tmp_path, items_a_jsonl=as_jsonl({"price": 6}))
    assert set(reports) == {"items.jsonl", "failures.csv", "stats.csv"}
    assert not list(tmp_path.glob("pages*"))


def test_no_file_of_items_is_made_where_there_are_none(tmp_path: Path) -> None:
    assert "items.jsonl" not in merged(tmp_path, pages_a_csv=as_csv(page("http://a.test/")))
    assert not (tmp_path / "items.jsonl").exists()


def test_of_two_leases_of_a_page_the_one_that_was_refused_does_not_count(tmp_path: Path) -> None:
    settled = page("http://a/", 1, title="settled", lease=1, worker="w1")
    refused = page("http://a/", 2, title="refused", lease=2, worker="w2")
    note_refused(tmp_path, "w2", [Refused("http://a/", 2), Refused("http://alone/", 4)])
    report = merged(
        tmp_path,
        pages_w1_csv=as_csv(settled),
        pages_w2_csv=as_csv(refused, page("http://alone/", 3, lease=4, worker="w2")),
    )["pages.csv"]
    rows = {row["url"]: row["title"] for row in rows_of(tmp_path / "pages.csv")}
    assert rows == {"http://a/": "settled", "http://alone/": ""}
    assert report.duplicates == 1


def test_a_failure_that_was_refused_is_left_out_and_another_workers_is_not(tmp_path: Path) -> None:
    early, late = failure("http://a/", 1), failure("http://a/", 2)
    mine = [Refused("http://a/", 2, "w2"), Refused("http://b/", 3, "w2")]
    note_refused(tmp_path, "w2", mine)
    merged(
        tmp_path,
        failures_w1_csv=as_csv(early | {"worker": "w1"}),
        failures_w2_csv=as_csv(late | {"worker": "w2"}, failure("http://b/") | {"worker": "w2"}),
    )
    rows = rows_of(tmp_path / "failures.csv")
    assert [(row["url"], row["worker"]) for row in rows] == [("http://a/", "w1")]


def test_items_of_a_lease_that_was_refused_do_not_count_beside_those_of_another(
    tmp_path: Path,
) -> None:
    a, b = page_hash("http://a/"), page_hash("http://b/")
    parts = {"w1": (b'{"n": 1}\n', f"1 {a}\n"), "w2": (b'{"n": 2}\n{"n": 3}\n', f"2 {a}\n4 {b}\n")}
    for worker, (items, leases) in parts.items():
        part = tmp_path / f"items-{worker}-0001.jsonl"
        part.write_bytes(items)
        part.with_suffix(".leases").write_text(leases)
    note_refused(tmp_path, "w1", [Refused("http://a/", 2), Refused("http://b/", 4)])
    merged(tmp_path)
    assert (tmp_path / "items.jsonl").read_bytes() == b'{"n": 1}\n{"n": 3}\n'


def test_a_field_that_is_called_like_a_formula_is_none_in_the_head_of_a_csv(tmp_path: Path) -> None:
    item = {"=HYPERLINK(1)": "=1+1", "plain": "text"}
    (tmp_path / "items-w1-0001.jsonl").write_bytes(as_jsonl(item))
    merge.merge(tmp_path, tmp_path, Wish(("csv", "jsonl", "parquet")))
    assert rows_of(tmp_path / "items.csv") == [{"'=HYPERLINK(1)": "'=1+1", "plain": "text"}]
    assert json.loads((tmp_path / "items.jsonl").read_bytes()) == item
    assert duckdb.read_parquet(str(tmp_path / "items.parquet")).columns == list(item)


def test_rows_stand_below_each_other_however_long_the_names_of_files_are() -> None:
    files = ["pages.csv", "attributes.parquet"]
    kinds = [FileReport(name, parts=1, rows=37, duplicates=2) for name in files]
    lines = MergeReport("here", kinds).to_text().splitlines()[1:]
    assert len({line.index("37 rows") for line in lines if "37 rows" in line}) == 1
    assert len({line.index("left out") for line in lines if "left out" in line}) == 1


def test_a_url_that_ended_dead_under_a_later_lease_has_no_row_of_pages(tmp_path: Path) -> None:
    report = merged(
        tmp_path,
        pages_w1_csv=as_csv(page("http://dead/", 1, lease=2), page("http://well/", 1, lease=5)),
        failures_w2_csv=as_csv(
            failure("http://dead/", 3, lease=4), failure("http://well/", 3, lease=4)
        ),
    )
    assert urls_of(tmp_path / "pages.csv") == ["http://well/"]
    assert urls_of(tmp_path / "failures.csv") == ["http://dead/"]
    assert report["failures.csv"].recovered == 1


def test_a_page_stays_when_another_request_for_its_url_ended_dead_under_a_later_lease(
    tmp_path: Path,
) -> None:
    merged(
        tmp_path,
        pages_w1_csv=as_csv(page("http://a/", 1, lease=3)),
        failures_w2_csv=as_csv(failure("http://a/", 3, lease=8, request="0123456789abcdef")),
    )
    assert urls_of(tmp_path / "pages.csv") == ["http://a/"]
    assert urls_of(tmp_path / "failures.csv") == ["http://a/"]


def test_a_failure_without_a_column_for_its_request_is_that_of_its_page(tmp_path: Path) -> None:
    old = failure("http://dead/", 3, lease=8)
    del old["request"]
    merged(
        tmp_path,
        pages_w1_csv=as_csv(page("http://dead/", 1, lease=3)),
        failures_old_csv=as_csv(old),
    )
    assert urls_of(tmp_path / "pages.csv") == []


def test_leases_and_not_clocks_say_whether_a_failure_was_mended(tmp_path: Path) -> None:
    merged(
        tmp_path,
        pages_w1_csv=as_csv(page("http://a/", 300, lease=9)),
        failures_ahead_csv=as_csv(failure("http://a/", 600, lease=4)),
    )
    assert urls_of(tmp_path / "failures.csv") == []


def test_failures_of_a_version_without_leases_go_by_their_times(tmp_path: Path) -> None:
    rows = [failure("http://a/", 1), failure("http://b/", 5)]
    for row in rows:
        del row["lease"]
    merged(
        tmp_path,
        pages_w1_csv=as_csv(page("http://a/", 3, lease=1), page("http://b/", 3, lease=1)),
        failures_old_csv=as_csv(*rows),
    )
    assert urls_of(tmp_path / "failures.csv") == ["http://b/"]


WIDE = {
    "links": lambda lease: {"source": "http://a/", "links": [{"target": f"http://{lease}/"}]},
    "attributes": lambda lease: {"url": "http://a/", "title": str(lease)},
    "extracted": lambda lease: {"url": "http://a/", "record": "page", "price": str(lease)},
}


def of_lease(kind: str, lease: int) -> bytes:
    return as_jsonl({**WIDE[kind](lease), "fetched_at": utc_timestamp(lease), "lease": lease})


@pytest.mark.parametrize("kind", WIDE)
def test_rows_of_a_refused_lease_do_not_win_in_any_kind(tmp_path: Path, kind: str) -> None:
    for lease in (1, 2):
        (tmp_path / f"{kind}-w{lease}-0001.jsonl").write_bytes(of_lease(kind, lease))
    note_refused(tmp_path, "w2", [Refused("http://a/", 2, "w2")])
    report = merged(tmp_path, pages_w1_csv=as_csv(page("http://a/", 1, lease=1)))
    [file] = [name for name in report if name.startswith(f"{kind}.jsonl")]
    rows = duckdb.sql(f"SELECT lease FROM read_json('{tmp_path / file}')").fetchall()
    assert rows == [(1,)]


@pytest.mark.parametrize("kind", WIDE)
def test_rows_of_a_lease_before_the_last_go_if_that_wrote_none(tmp_path: Path, kind: str) -> None:
    (tmp_path / f"{kind}-w-0001.jsonl").write_bytes(of_lease(kind, 5))
    report = merged(
        tmp_path,
        pages_w1_csv=as_csv(page("http://a/", 1, lease=5)),
        pages_w2_csv=as_csv(page("http://a/", 9, lease=9)),
    )
    assert next(file.rows for name, file in report.items() if name.startswith(kind)) == 0
