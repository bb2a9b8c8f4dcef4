"""A file is there whole or not at all, and nothing of an attempt is left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crawlproj.output.whole_file import (
    remove_unfinished,
    unfinished_of,
    write_whole,
    written_whole,
)


@pytest.mark.parametrize("sync", [False, True])
def test_a_file_is_replaced_by_what_is_written(tmp_path: Path, sync: bool) -> None:
    file = tmp_path / "summary.txt"
    write_whole(file, "one", sync=sync)
    write_whole(file, "two \udc80", sync=sync)
    assert file.read_text(encoding="utf-8") == "two ?"
    assert [*tmp_path.iterdir()] == [file]


def test_a_file_that_cannot_be_replaced_stays_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "summary.txt"
    folder.mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(folder, "one")
    assert [*tmp_path.iterdir()] == [folder]


def test_what_could_not_be_written_to_its_end_is_gone_and_what_was_there_stays(
    tmp_path: Path,
) -> None:
    file = tmp_path / "answer.csv"
    file.write_text("one")
    with pytest.raises(ValueError, match="no more"), written_whole(file) as unfinished:
        unfinished.write_text("tw")
        raise ValueError("no more")
    assert file.read_text() == "one"
    assert [*tmp_path.iterdir()] == [file]


def test_two_processes_that_write_one_file_are_not_in_each_others_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "answer.csv"
    with written_whole(file) as unfinished:
        unfinished.write_text("one")
        with monkeypatch.context() as other:
            other.setattr(os, "getpid", lambda: 1)
            write_whole(file, "two")
        assert file.read_text() == "two"
    assert file.read_text() == "one"
    assert [*tmp_path.iterdir()] == [file]


def test_what_a_killed_process_of_the_same_number_has_left_is_not_added_to(tmp_path: Path) -> None:
    file = tmp_path / "rows.sqlite"
    unfinished_of(file).write_text("half")
    with written_whole(file) as unfinished:
        assert not unfinished.exists()
        unfinished.write_text("whole")
    assert file.read_text() == "whole"


def test_what_killed_processes_have_left_of_a_file_is_removed_and_no_other(tmp_path: Path) -> None:
    kept = [tmp_path / name for name in ("a[1].csv", ".a[1].csv.lock", ".b.csv.7", ".a1.csv.7")]
    left = [tmp_path / f".a[1].csv.{number}" for number in (7, 812)]
    for path in (*kept, *left):
        path.touch()
    remove_unfinished(kept[0])
    assert sorted(tmp_path.iterdir()) == sorted(kept)
