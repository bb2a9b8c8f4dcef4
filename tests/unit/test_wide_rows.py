"""Rows that hold much of their pages, links and texts, in little memory."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from crawlproj.output.database import DatabaseError
from crawlproj.output.merge import Wish, merge
from crawlproj.output.tables import open_tables
from tests.unit.written_parts import as_jsonl

PAGES = 24_000
LITTLE_MB = 300
LINKS = [
    {
        "target": f"http://a.example/docs/section/page-number-{n}.html",
        "text": f"text {n}",
        "rel": "",
    }
    for n in range(60)
]
TEXT = " ".join(f"{n * n:016x}" for n in range(500))


def write(folder: Path, kind: str, key: str, **member: object) -> None:
    """A part whose rows are not in the order of their times."""
    rest = json.dumps(member)[1:]
    part = folder / f"{kind}-w-0001.jsonl"
    with part.open("w") as file:
        for number in range(PAGES):
            at = number * 7919 % PAGES
            time = f"2026-11-18T{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}.000Z"
            file.write(f'{{"{key}": "http://a.example/{at}", "fetched_at": "{time}", {rest}\n')
    os.utime(part, (1, 1))  # nobody writes to it


@pytest.mark.parametrize(
    ("kind", "key", "member"),
    [("links", "source", {"links": LINKS}), ("attributes", "url", {"text": TEXT})],
)
def test_far_more_of_wide_rows_than_memory_holds_is_merged_in_order(
    tmp_path: Path, kind: str, key: str, member: dict[str, object]
) -> None:
    write(tmp_path, kind, key, **member)
    merge(tmp_path, tmp_path, Wish(("jsonl",) if kind == "attributes" else (), memory_mb=LITTLE_MB))
    with open_tables(tmp_path / "nothing") as tables:
        [merged] = tmp_path.glob(f"{kind}.jsonl*")
        found = tables.ask(f"SELECT {key} FROM read_json('{merged}')")
    assert [url for (url,) in found] == [f"http://a.example/{n}" for n in range(PAGES)]


def test_links_of_far_more_pages_than_memory_holds_are_read_page_by_page(tmp_path: Path) -> None:
    write(tmp_path, "links", "source", links=LINKS)
    with open_tables(tmp_path, LITTLE_MB) as tables:
        assert sum(len(links) for _, links in tables.links_by_page()) == PAGES * len(LINKS)


def test_links_by_page_are_the_same_from_parts_and_from_merged_parquet(tmp_path: Path) -> None:
    rows = [
        {"source": f"http://a/{n}", "fetched_at": f"2026-11-18T00:00:0{n}.000Z", "links": LINKS[:n]}
        for n in range(3)
    ]
    (tmp_path / "links-w-0001.jsonl").write_bytes(as_jsonl(*rows))
    with open_tables(tmp_path) as tables:
        of_parts = {source: links for source, links in tables.links_by_page() if links}
    merge(tmp_path, tmp_path / "out", Wish(("parquet",)))
    with open_tables(tmp_path / "out") as tables:
        assert dict(tables.links_by_page()) == of_parts
    assert [len(links) for links in of_parts.values()] == [1, 2]


def test_an_answer_that_fails_half_way_says_so_in_one_line(tmp_path: Path) -> None:
    with open_tables(tmp_path) as tables, pytest.raises(DatabaseError, match=r"^[^\n]+$"):
        list(tables.each("SELECT nothing FROM pages"))
