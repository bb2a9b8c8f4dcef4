"""One file of what several workers write: what can be made, and what is said where it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scrapy.settings import Settings

from crawlproj.errors import ConfigError
from crawlproj.output.gather import Gathering, gatherings

RUN = "run1"


def gathering(folder: Path, name: str, *, overwrite: bool) -> Gathering:
    given = [str(folder / name)]
    found, _ = gatherings(Settings(), *(([], given) if overwrite else (given, [])), RUN)
    [one] = found
    one.parts.mkdir()
    for number in (1, 2):
        line = json.dumps({"n": number}) + "\n"
        (one.parts / f"items-w{number}-0001.jsonl").write_text(line)
    return one


@pytest.mark.parametrize(
    ("name", "overwrite", "written"),
    [
        ("all.jsonl", False, '{"n": 0}\n{"n": 1}\n{"n": 2}\n'),
        ("all.jsonl", True, '{"n": 1}\n{"n": 2}\n'),
        ("all.csv", True, "n\r\n1\r\n2\r\n"),
        ("all.json", True, '[\n{"n": 1},\n{"n": 2}\n]'),
    ],
)
def test_a_file_that_is_there_is_added_to_or_replaced(
    tmp_path: Path, name: str, overwrite: bool, written: str
) -> None:
    (tmp_path / name).write_text('{"n": 0}\n')
    one = gathering(tmp_path, name, overwrite=overwrite)
    assert one.gather(Settings()) == f"2 items in {tmp_path / name}"
    assert (tmp_path / name).read_bytes().decode() == written
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_rows_that_are_added_to_a_csv_have_its_columns(tmp_path: Path) -> None:
    csv = tmp_path / "all.csv"
    csv.write_text("a,n\r\nx,0\r\n", newline="")
    one = gathering(tmp_path, csv.name, overwrite=False)
    (one.parts / "items-w3-0001.jsonl").write_text('{"n": 3, "a": "y", "b": "z"}\n')
    said = one.gather(Settings())
    assert csv.read_bytes().decode() == "a,n\r\nx,0\r\n,1\r\n,2\r\ny,3\r\n"
    assert said.startswith("3 items in ") and said.endswith(
        f"without b: kept in {one.parts}/items.jsonl"
    )


@pytest.mark.parametrize(("may_repeat", "items"), [(False, "4 items"), (True, "2 items")])
def test_items_that_are_alike_are_gathered_once_only_where_a_worker_was_lost(
    tmp_path: Path, may_repeat: bool, items: str
) -> None:
    one = gathering(tmp_path, "all.json", overwrite=True)
    (one.parts / "items-w3-0001.jsonl").write_text('{"n": 1}\n' * 2)
    assert one.gather(Settings(), may_repeat=may_repeat).startswith(items)


def test_without_items_there_is_no_file_and_a_line_says_so(tmp_path: Path) -> None:
    [one], _ = gatherings(Settings(), [str(tmp_path / "all.json")], [], RUN)
    assert one.gather(Settings()) == f"No items for {tmp_path / 'all.json'}"
    assert list(tmp_path.iterdir()) == []


def test_a_name_for_each_worker_is_handed_on() -> None:
    own = "s3://bucket/%(worker)s.json"
    assert gatherings(Settings(), [own], [], RUN) == ([], ["-o", own])


@pytest.mark.parametrize(
    ("output", "overwrite", "complaint"),
    [
        (["a.txt"], [], "-o a.txt: Unrecognized output format 'txt'"),
        (["s3://bucket/a.json"], [], "-o s3://bucket/a.json: workers cannot share it"),
        ([], ["-:json"], "-O -:json: workers cannot share it"),
        (["a.json"], ["b.json"], "-o and -O: give one of them"),
        ([], ["%(worker)s.json", "b.json"], "-O %(worker)s.json: give every file a name"),
    ],
)
def test_what_cannot_be_made_is_said_before_a_worker_starts(
    output: list[str], overwrite: list[str], complaint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        gatherings(Settings(), output, overwrite, RUN)
    assert str(caught.value).startswith(complaint)


def test_a_format_that_cannot_grow_is_not_added_to(tmp_path: Path) -> None:
    (tmp_path / "all.json").write_text("[]")
    with pytest.raises(ConfigError, match="is there already; -O replaces it"):
        gatherings(Settings(), [str(tmp_path / "all.json")], [], RUN)
