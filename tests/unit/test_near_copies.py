"""Clusters of near-duplicates, from the files of a crawl."""

from __future__ import annotations

from pathlib import Path

from crawlproj.output.near_copies import Cluster, Found, find_clusters
from crawlproj.output.tables import open_tables
from tests.unit.written_parts import as_csv, page


def found_in(tmp_path: Path, marks: dict[str, str], most: int = 10, most_urls: int = 10) -> Found:
    rows = [page(url, near_duplicate_of=of) for url, of in marks.items()]
    (tmp_path / "pages-w1-0001.csv").write_bytes(as_csv(*rows))
    with open_tables(tmp_path) as tables:
        return find_clusters(tables, most, most_urls)


def test_the_largest_comes_first_and_lists_are_bounded_but_not_the_totals(tmp_path: Path) -> None:
    marks = {"/a": "", "/a1": "/a", "/b": "", "/b1": "/b", "/b2": "/b", "/c": ""}
    assert found_in(tmp_path, marks) == Found(
        [Cluster("/b", 2, ["/b1", "/b2"]), Cluster("/a", 1, ["/a1"])], 2, 3
    )
    assert found_in(tmp_path, marks, most=1, most_urls=1) == Found(
        [Cluster("/b", 2, ["/b1"])], 2, 3
    )


def test_a_copy_of_a_page_that_became_a_copy_is_in_the_cluster_of_the_first(tmp_path: Path) -> None:
    marks = {"/a": "", "/b": "/a", "/c": "/b"}
    assert found_in(tmp_path, marks).clusters == [Cluster("/a", 2, ["/b", "/c"])]


def test_pages_that_name_each_other_end_somewhere(tmp_path: Path) -> None:
    found = found_in(tmp_path, {"/a": "/b", "/b": "/a"})
    assert found.total <= 2


def test_a_crawl_without_marks_has_none(tmp_path: Path) -> None:
    assert found_in(tmp_path, {"/a": "", "/b": ""}) == Found([], 0, 0)
