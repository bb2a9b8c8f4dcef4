"""Which links are broken, by the files of a crawl: the same for `linkcheck` and for the report."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from crawlproj.discover.link_records import checksums
from crawlproj.items import utc_timestamp
from crawlproj.output.broken_links import Findings, failures_of, find_broken
from crawlproj.output.link_table import LinkTable
from crawlproj.output.merge import merge
from crawlproj.output.report.reading import read_report
from crawlproj.output.tables import open_tables
from tests.unit.written_parts import as_csv, as_jsonl, failure, page

GONE = {"kind": "permanent", "status": 404, "reason": "http_404", "worker": "w1"}


def links(source: str, *targets: str, second: int = 1) -> dict[str, Any]:
    found = []
    for target in targets:
        url, _, fragment = target.partition("#")
        found.append({"target": url, "text": "", "rel": "", "fragment": fragment})
    anchors = checksums(["here"])
    row = {"source": source, "fetched_at": utc_timestamp(second), "links": found}
    return row | {"anchors": anchors}


def crawled(folder: Path, *rows: dict[str, Any], worker: str = "w1") -> Path:
    """The rows of links, and of pages, that one worker has written."""
    folder.mkdir(exist_ok=True)
    table = LinkTable(folder, worker, rotate_bytes=1e9, rotate_s=1e9)
    for row in rows:
        table.write(json.dumps(row).encode() + b"\n")
    table.close()
    pages = [page(row["source"]) for row in rows]
    (folder / f"pages-{worker}-0001.jsonl").write_bytes(as_jsonl(*pages))
    return folder


def found_in(*folders: Path) -> Findings:
    with open_tables(list(folders)) as tables:
        return find_broken(folders, failures_of(tables))


def test_a_page_with_many_ids_is_looked_through_once_however_many_links_lead_into_it(
    tmp_path: Path,
) -> None:
    """Looked at for every link, 20,000 ids take half a minute."""
    names = [f"id{number}" for number in range(20_000)]
    row = links("http://a/", *(f"http://a/#{name}" for name in [*names, "missing"]))
    crawled(tmp_path, row | {"anchors": checksums(names)})
    began_s = time.process_time()
    found = found_in(tmp_path)
    assert time.process_time() - began_s < 8
    assert [one.url for one in found.broken] == ["http://a/#missing"]


def test_of_a_page_that_was_fetched_twice_the_last_links_count(tmp_path: Path) -> None:
    crawled(tmp_path, links("http://a/", "http://a/old"))
    crawled(tmp_path, links("http://a/", "http://a/new", "http://a/2", second=2), worker="w2")
    gone = [failure(f"http://a/{name}") | GONE for name in ("old", "new")]
    (tmp_path / "failures-w1-0001.csv").write_bytes(as_csv(*gone))
    found = found_in(tmp_path)
    sources = {one.url: one.sources for one in found.broken}
    assert sources == {"http://a/new": ["http://a/"], "http://a/old": []}
    assert (found.pages, found.links) == (1, 2)
    report = {
        one.url: [it.url for it in one.sources] for one in read_report("s", [tmp_path]).broken
    }
    assert report == sources


def test_a_link_whose_page_was_fetched_well_after_all_is_not_broken(tmp_path: Path) -> None:
    crawled(tmp_path, links("http://a/", "http://a/late"))
    (tmp_path / "failures-w1-0001.csv").write_bytes(as_csv(failure("http://a/late", 1) | GONE))
    (tmp_path / "pages-w2-0001.csv").write_bytes(as_csv(page("http://a/late", 2)))
    assert found_in(tmp_path).broken == []


@pytest.mark.parametrize("is_merged", [False, True])
def test_places_are_missed_in_pages_of_another_machine_and_in_merged_files(
    tmp_path: Path, is_merged: bool
) -> None:
    one = crawled(tmp_path / "one", links("http://a/1", "http://a/2#there", "http://a/2#here"))
    other = crawled(tmp_path / "other", links("http://a/2", "http://a/2#there"), worker="w2")
    folders = [one, other]
    if is_merged:
        merge(folders, tmp_path / "merged")
        folders = [tmp_path / "merged"]
    [place] = read_report("s", folders).broken
    assert (place.url, place.kind) == ("http://a/2#there", "anchor")
    assert [source.url for source in place.sources] == ["http://a/1", "http://a/2"]
