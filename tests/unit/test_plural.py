"""Numbers in sentences."""

from __future__ import annotations

import pytest

from crawlproj.output.merge_report import FileReport, MergeReport
from crawlproj.plural import counted, plural


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (12_345, "12,345 rows")]
)
def test_one_is_singular_and_everything_else_is_not(count: int, text: str) -> None:
    assert counted(count, "row") == text


def test_some_words_have_a_plural_of_their_own() -> None:
    assert [plural(2, word) for word in ("try", "is", "URL")] == ["tries", "are", "URLs"]


def test_a_merge_tells_of_one_row_of_one_part() -> None:
    report = MergeReport("here", [FileReport("pages.csv", parts=1, rows=1)])
    assert report.to_text().splitlines()[1].split() == ["pages.csv", "1", "row", "of", "1", "part"]
