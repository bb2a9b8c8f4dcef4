"""The files of the link table, and what is left of one when its worker was killed."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import duckdb
import pytest
from scrapy.utils.test import get_crawler

from crawlproj.items import utc_timestamp
from crawlproj.output import link_table, merge
from crawlproj.output.link_table import LinkTable
from crawlproj.output.parts import parts_of
from crawlproj.output.worker_output import WorkerOutput
from crawlproj.spider import SiteSpider


def a_table(folder: Path, rotate_bytes: float = 1e9) -> LinkTable:
    return LinkTable(folder, "w", rotate_bytes=rotate_bytes, rotate_s=1e9)


def row(number: int) -> bytes:
    link = {"target": f"http://a.example/{number * 7919}", "text": "a", "rel": ""}
    told = {
        "source": f"http://a.example/{number}",
        "fetched_at": utc_timestamp(1),
        "links": [link] * 3,
    }
    return json.dumps(told).encode() + b"\n"


def link_parts(folder: Path) -> list[Path]:
    return parts_of([folder], "links", "jsonl.zst")


def sources(folder: Path) -> list[str]:
    parts = link_parts(folder)
    rows = [link_table.read_row(line) for part in parts for line in link_table.lines_of(part)]
    return [one["source"] for one in rows if one]


def test_what_is_saved_can_be_read_though_the_file_is_not_closed(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    for number in range(3):
        table.write(row(number))
        table.save()
        assert sources(tmp_path) == [f"http://a.example/{n}" for n in range(number + 1)]
    [part] = link_parts(tmp_path)
    count = f"SELECT count(*) FROM read_json('{part}', format='newline_delimited')"
    assert duckdb.sql(count).fetchall() == [(3,)]


def test_a_torn_end_costs_the_rows_in_it_and_no_others(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    table.write(row(0))
    table.save()
    [part] = link_parts(tmp_path)
    whole = part.stat().st_size
    table.write(row(1))
    table.save()
    table.close()
    for size in range(part.stat().st_size - 1, whole - 1, -1):
        os.truncate(part, size)
        assert sources(tmp_path)[0] == "http://a.example/0"
    assert sources(tmp_path) == ["http://a.example/0"]


def test_a_part_that_was_cut_is_counted_by_a_merge_and_one_that_was_not_ended_is_not(
    tmp_path: Path,
) -> None:
    table = a_table(tmp_path)
    whole_sizes, rows = set(), 0
    for number in range(3):
        table.write(row(number))
        table.save()
        [part] = link_parts(tmp_path)
        whole_sizes.add(part.stat().st_size)
    table.close()
    whole_sizes.add(part.stat().st_size)
    cut = range(max(whole_sizes), min(whole_sizes) - 1, -7)
    for size in sorted(whole_sizes.union(cut), reverse=True):
        os.truncate(part, size)
        [found] = merge.merge(tmp_path, tmp_path).kinds[-1:]
        assert found.file == "links.jsonl.zst"
        assert found.torn == (size not in whole_sizes), size
        rows = max(rows, found.rows)
    assert rows == 3


def test_lines_cut_at_the_end_of_a_block_count_once(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    for number in range(20_000):
        table.write(row(number))
    table.close()
    [part] = link_parts(tmp_path)
    os.truncate(part, part.stat().st_size // 2)
    [found] = merge.merge(tmp_path, tmp_path).kinds[-1:]
    assert found.torn == 1
    assert 0 < found.rows < 20_000


def test_files_rotate_and_those_of_an_earlier_run_are_not_added_to(tmp_path: Path) -> None:
    for _ in range(2):
        table = a_table(tmp_path, rotate_bytes=1)
        for number in range(2):
            table.write(row(number))
            table.save()
        table.close()
    names = [part.name for part in link_parts(tmp_path)]
    assert names == [f"links-w-{number:04}.jsonl.zst" for number in (1, 2, 3, 4)]
    assert len(sources(tmp_path)) == 4


def test_rows_that_a_failing_disk_has_lost_are_there_once_it_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = a_table(tmp_path)
    table.write(row(0))
    table.save()
    fails = [True]

    def sync(number: int) -> None:
        if fails.pop():
            raise OSError("the disk fails")

    monkeypatch.setattr("crawlproj.output.row_file._sync_data", sync)
    table.write(row(1))
    with pytest.raises(OSError, match="the disk fails"):
        table.save()
    fails = [False] * 9
    table.write(row(2))
    table.save()
    assert sources(tmp_path) == [f"http://a.example/{number}" for number in range(3)]


def test_a_row_for_which_memory_was_short_keeps_nobody_from_saving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = a_table(tmp_path)

    def no_memory(level: int) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(link_table, "PACK_BEHIND_BYTES", 1)
        patch.setattr(link_table.zstd, "ZstdCompressor", no_memory)
        with pytest.raises(MemoryError):
            table.write(row(0))
    saving = threading.Thread(target=table.save, daemon=True)
    saving.start()
    saving.join(10)
    assert not saving.is_alive()
    assert sources(tmp_path) == ["http://a.example/0"]


@pytest.mark.parametrize("line", [b"", b"{}\n", b"[1]\n", b'{"source": 1, "links": []}\n', b"x\n"])
def test_a_line_that_is_none_of_ours_is_no_row(line: bytes) -> None:
    assert link_table.read_row(line) is None


def test_a_worker_that_joins_once_more_ends_the_table_that_it_had(
    tmp_path: Path,
) -> None:
    settings = {"CRAWL_OUTPUT": str(tmp_path), "CRAWL_WORKER_ID": "w"}
    output = WorkerOutput(get_crawler(SiteSpider, settings), "w", wanted=False)
    output.tables.link_table()(row(0))
    output.tables.link_table()(row(1))
    output.flush_rows()
    [folder] = tmp_path.iterdir()
    assert sources(folder) == ["http://a.example/0", "http://a.example/1"]
    assert len(link_parts(folder)) == 2
