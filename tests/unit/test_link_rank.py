"""The importance of pages, by a table of links."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from crawlproj.errors import ConfigError
from crawlproj.output import link_rank
from crawlproj.output.link_rank import NoLinks, RankedPage, Ranks, rank, ranked_pages
from crawlproj.output.tables import open_tables
from tests.unit.written_parts import as_csv, as_jsonl, page


def ranked(
    tmp_path: Path, graph: Mapping[str, Sequence[str]], most: int | None = None
) -> tuple[Ranks, list[RankedPage]]:
    (tmp_path / "pages-w1-0001.csv").write_bytes(as_csv(*map(page, graph)))
    rows = [
        {
            "source": source,
            "fetched_at": "2026-01-01T00:00:00.000Z",
            "links": [{"target": target, "text": "x", "rel": ""} for target in targets],
        }
        for source, targets in graph.items()
    ]
    (tmp_path / "links-w1-0001.jsonl").write_bytes(as_jsonl(*rows))
    with open_tables(tmp_path) as tables:
        ranks = rank(tables)
        return ranks, list(ranked_pages(tables, ranks, most))


GRAPH = {
    "/": ["/a", "/b", "/a", "/", "/not-fetched"],
    "/a": ["/b"],
    "/b": ["/"],
    "/c": ["/b"],
}


def test_pages_are_ranked_by_the_links_among_them_each_counted_once(tmp_path: Path) -> None:
    ranks, pages = ranked(tmp_path, GRAPH)
    assert [one.url for one in pages] == ["/b", "/", "/a", "/c"]
    assert {one.url: one.in_links for one in pages} == {"/b": 3, "/": 1, "/a": 1, "/c": 0}
    assert ranks.links == 5
    assert sum(one.pagerank for one in pages) == pytest.approx(1)


def test_pagerank_solves_its_equation(tmp_path: Path) -> None:
    found = {one.url: one.pagerank for one in ranked(tmp_path, GRAPH)[1]}
    jump = 0.15 / 4
    assert found["/b"] == pytest.approx(jump + 0.85 * (found["/"] / 2 + found["/a"] + found["/c"]))
    assert found["/c"] == pytest.approx(jump)


def test_harmonic_centrality_is_the_mean_of_how_near_the_others_are(tmp_path: Path) -> None:
    found = {one.url: one.harmonic for one in ranked(tmp_path, GRAPH)[1]}
    assert found["/b"] == pytest.approx((1 + 1 + 1) / 3)
    assert found["/"] == pytest.approx((1 + 1 / 2 + 1 / 2) / 3)
    assert found["/a"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert found["/c"] == 0


def test_of_a_large_graph_it_is_estimated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = {f"/{n}": [f"/{(n * 7 + step) % 60}" for step in range(1, 4)] for n in range(60)}
    exact, _ = ranked(tmp_path, graph)
    monkeypatch.setattr(link_rank, "MOST_STEPS", 0)
    estimated, _ = ranked(tmp_path, graph)
    assert (exact.is_exact, estimated.is_exact) == (True, False)
    # From all 60 pages, of which a page itself is none: no longer drawn, only divided otherwise.
    assert [one * 60 / 59 for one in estimated.harmonic] == pytest.approx(exact.harmonic)


def test_as_many_are_listed_as_are_asked_for(tmp_path: Path) -> None:
    assert [one.url for one in ranked(tmp_path, GRAPH, most=2)[1]] == ["/b", "/"]


def test_a_crawl_without_links_is_told_how_to_keep_them(tmp_path: Path) -> None:
    with pytest.raises(NoLinks, match="links=true"):
        ranked(tmp_path, {"/": ["/elsewhere"]})


def test_without_the_package_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing: Any = None
    monkeypatch.setitem(sys.modules, "igraph", missing)
    with pytest.raises(ConfigError, match=r"crawlproj\[rank\]"):
        ranked(tmp_path, GRAPH)
