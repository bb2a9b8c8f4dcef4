"""The columns of the output are a contract: people script against them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from crawlproj import items


@pytest.mark.parametrize(
    ("columns", "promised"),
    [
        (
            items.PAGE_COLUMNS,
            "url, status, title, depth, priority, content_type, size, links, content_hash, "
            "fetched_at, elapsed_ms, referer, worker, redirect_to, lease, etag, last_modified, "
            "canonical, language, change, near_duplicate_of",
        ),
        (
            items.FAILURE_COLUMNS,
            "url, status, kind, reason, referer, depth, attempts, failed_at, worker, request, "
            "lease",
        ),
        (
            items.STATS_COLUMNS,
            "at, worker, pages, pages_per_s, bytes, errors, queued, leased, hosts",
        ),
    ],
)
def test_columns_are_the_promised_ones_in_the_promised_order(
    columns: tuple[str, ...], promised: str
) -> None:
    assert ", ".join(columns) == promised


@pytest.mark.parametrize(
    ("epoch_s", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1738314300.25, "2025-01-31T09:05:00.250Z"),
        (1738314300.9996, "2025-01-31T09:05:00.999Z"),
    ],
)
def test_a_timestamp_is_iso_8601_in_utc_with_milliseconds(epoch_s: float, text: str) -> None:
    assert items.utc_timestamp(epoch_s) == text


def test_the_timestamp_of_now_is_later_than_one_of_the_past() -> None:
    assert items.utc_timestamp() > items.utc_timestamp(1738314300)


TYPES = {"str": ("text", "time"), "int": ("whole number",), "float": ("number",)}


@pytest.mark.parametrize("kind", items.OUR_ITEMS)
def test_every_column_is_documented_with_its_type(kind: type) -> None:
    page = (Path(__file__).parents[2] / "docs" / "output.md").read_text(encoding="utf-8")
    table = page.partition(f"<!-- columns of {kind.__name__} -->\n")[2].partition("\n\n#")[0]
    rows = [line.split(" | ")[:2] for line in table.splitlines() if line.startswith("| ")][1:]
    assert [row[0].removeprefix("| ") for row in rows] == [one.name for one in fields(kind)]
    for (_, shown), field in zip(rows, fields(kind), strict=True):
        assert shown in TYPES[str(field.type)]
