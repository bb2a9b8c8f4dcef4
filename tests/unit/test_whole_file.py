"""A text file is there whole or not at all, and nothing of an attempt is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlproj.output.whole_file import write_whole


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
