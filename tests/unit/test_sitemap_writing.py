"""The sitemap of a crawl: what search engines can read, however many pages there are."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from crawlproj.errors import ConfigError
from crawlproj.output import sitemap_writing
from crawlproj.output.sitemap_writing import NoPages, host_of, write_sitemap
from crawlproj.output.tables import open_tables
from tests.unit.written_parts import as_csv, page

HTML = {"content_type": "text/html"}


def made(folder: Path, *pages: dict[str, Any], host: str = "") -> tuple[int, list[str]]:
    (folder / "pages-w-0001.csv").write_bytes(as_csv(*pages))
    with open_tables(folder) as tables:
        return write_sitemap(tables, host_of(tables, host), folder)


def places(path: Path) -> list[str]:
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    return [str(found.text) for found in ElementTree.fromstring(text).iter() if "loc" in found.tag]


def test_pages_that_answered_well_are_in_it_once_and_escaped(tmp_path: Path) -> None:
    pages = [
        page("http://a.test/?b=1&c=2", **HTML),
        page("http://a.test/", 1, **HTML),
        page("http://a.test/", 2, **HTML),
        page("http://a.test/gone", status=404, **HTML),
        page("http://a.test/moved", status=301, **HTML),
        page("http://a.test/picture", content_type="image/png"),
    ]
    assert made(tmp_path, *pages) == (2, ["sitemap.xml"])
    found = places(tmp_path / "sitemap.xml")
    assert found == ["http://a.test/", "http://a.test/?b=1&c=2"]


def test_more_than_a_file_may_hold_is_in_several_with_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sitemap_writing, "MOST_URLS", 3)
    urls = [f"http://a.test/{number}" for number in range(7)]
    count, files = made(tmp_path, *(page(url, **HTML) for url in urls))
    assert (count, len(files)) == (7, 4)
    index = places(tmp_path / "sitemap.xml")
    assert index == [f"http://a.test/{name}" for name in files[1:]]
    assert [url for name in files[1:] for url in places(tmp_path / name)] == urls


def test_of_several_hosts_one_must_be_named(tmp_path: Path) -> None:
    pages = [page("http://a.test/", **HTML), page("http://b.test/", **HTML)]
    with pytest.raises(ConfigError, match=r"give one of the hosts of this crawl, as http://a.test"):
        made(tmp_path, *pages)
    assert made(tmp_path, *pages, host="b.test") == (1, ["sitemap.xml"])
    assert places(tmp_path / "sitemap.xml") == ["http://b.test/"]


def test_any_host_can_be_named_however_many_there_are(tmp_path: Path) -> None:
    pages = [page(f"http://h{number:04}.test/", **HTML) for number in range(1100)]
    for host in ("h1099.test", "http://h1099.test"):
        assert made(tmp_path, *pages, host=host) == (1, ["sitemap.xml"])
    assert places(tmp_path / "sitemap.xml") == ["http://h1099.test/"]


def test_without_a_page_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(NoPages, match="no page that answered well"):
        made(tmp_path, page("http://a.test/", status=500))


def test_nothing_is_left_of_one_that_could_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "sitemap.xml").mkdir()
    with pytest.raises(IsADirectoryError):
        made(tmp_path, page("http://a.test/", **HTML))
    assert not list(tmp_path.glob(".*"))
