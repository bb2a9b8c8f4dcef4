"""What is read of pages: of those of a table with known answers, and of hostile ones."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import Headers

from crawlproj.discover import declared
from crawlproj.output.attributes import reader as reader_module
from crawlproj.output.attributes.dates import read_date
from crawlproj.output.attributes.reader import PageReader, ReaderFailed
from crawlproj.output.attributes.reading import MAX_MARKUP, read_attributes
from crawlproj.output.attributes.rows import COLUMNS
from crawlproj.output.attributes.table import MOST_PAGES, AttributeTable
from crawlproj.output.attributes.text import MAX_TEXT
from crawlproj.running import PageToRead

DATA = Path(__file__).parent / "data" / "attributes"
ANSWERS: dict[str, dict[str, Any]] = json.loads((DATA / "answers.json").read_text("utf-8"))

SHARES = {
    "title": 1.0,
    "description": 1.0,
    "language": 1.0,
    "published": 1.0,
    "modified": 1.0,
    "author": 1.0,
    "owner": 1.0,
    "text": 1.0,
    "videos": 1.0,
    "canonical": 1.0,
    "structured": 1.0,
}
"""Of the pages of the table, how many are right at least."""

NESTED = "<div>" * 100_000
"""100,000 elements, each in the one before: parsers need time that is quadratic in them."""


def read(name: str) -> dict[str, Any]:
    markup = (DATA / f"{name}.html").read_text("utf-8")
    body, url = markup.encode(), ANSWERS[name]["url"]
    href = declared.canonical(body)
    canonical = href and (href if "://" in href else "https://shop.example" + href)
    return read_attributes(markup, url, declared.language(body, Headers()), canonical)


def is_right(name: str, attribute: str, found: Any) -> bool:
    answer = ANSWERS[name]
    if attribute == "text":
        return answer["has"] in (found or "") and answer["lacks"] not in (found or "")
    if attribute == "structured":
        return answer["structured"] == (found and sorted(found))
    return bool(found == answer[attribute])


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    return {name: read(name) for name in ANSWERS}


@pytest.mark.parametrize("attribute", SHARES)
def test_so_many_pages_of_the_table_have_the_known_answer(
    found: dict[str, dict[str, Any]], attribute: str
) -> None:
    wrong = {
        name: row[attribute]
        for name, row in found.items()
        if not is_right(name, attribute, row[attribute])
    }
    assert 1 - len(wrong) / len(found) >= SHARES[attribute], wrong


@pytest.mark.parametrize(
    ("written", "date"),
    [
        ("2024-05-17", "2024-05-17"),
        ("2024-05-17T08:30:00+02:00", "2024-05-17T06:30:00Z"),
        ("2024-05-17 08:30", "2024-05-17T08:30:00"),
        ("20240517", "2024-05-17"),
        ("2024/5/17", "2024-05-17"),
        ("May 17, 2024", "2024-05-17"),
        ("17th Sept. 2024", "2024-09-17"),
        ("17. Mai 2024", "2024-05-17"),
        ("17 de mayo de 2024", "2024-05-17"),
        ("Published: 17 August 2024 at noon", "2024-08-17"),
        ("17.05.2024", "2024-05-17"),
        ("05/17/2024", "2024-05-17"),
        ("2024年5月17日", "2024-05-17"),
        ("Fri, 17 May 2024 08:30:00 GMT", "2024-05-17T08:30:00Z"),
        ("31 February 2024", None),
        ("1066-10-14", None),
        ("2999-01-01", None),
        ("yesterday", None),
        ("x" * 10_000, None),
        ("0001-01-01T00:00:00+23:59", None),
    ],
)
def test_a_date_is_read_however_it_is_written(written: str, date: str | None) -> None:
    assert read_date(written) == date


@pytest.mark.parametrize(
    ("markup", "title"),
    [
        ("<title>&lt;video&gt;: The element</title>", "<video>: The element"),
        ("<title>If 3 &lt; 5 and 7 &gt; 2</title>", "If 3 < 5 and 7 > 2"),
        ("<title>What &amp;lt; means</title>", "What &lt; means"),
        ("<title> </title><h1>The &lt;b&gt; element</h1>", "The <b> element"),
        ("<meta property=og:title content='&lt;br&gt;: The element'>", "<br>: The element"),
        ("<meta property=og:title content='&lt;b&gt;Bold&lt;/b&gt; news'>", "Bold news"),
        ("<meta property=og:title content='One&lt;br&gt;two'>", "One two"),
        ("<meta property=og:title content='Tom &amp;amp; Eve'>", "Tom & Eve"),
    ],
)
def test_a_title_that_tells_of_elements_keeps_them(markup: str, title: str) -> None:
    assert read_attributes(markup, "https://x.example/", "", "")["title"] == title


def test_what_is_taken_of_a_page_is_bounded() -> None:
    videos = "".join(f"<video src=/{number}></video>" for number in range(500))
    page = (
        f"<title>{'t' * 9000}</title><meta name=author content={'a' * 9000}>"
        f"<article>{'word ' * MAX_TEXT}</article>{videos}{'x' * MAX_MARKUP}"
        '<script type="application/ld+json">' + "[" * 100_000 + "</script>"
    )
    row = read_attributes(page, "https://x.example/", "", "")
    assert MAX_TEXT - 5 < len(row["text"]) <= MAX_TEXT
    assert len(row["title"]) <= 2000
    assert len(row["author"]) <= 200
    assert len(row["videos"]) <= 50


def test_a_number_beyond_all_numbers_leaves_the_row_json() -> None:
    script = '<script type="application/ld+json">{"price": 1e999, "size": 1.5}</script>'
    row = read_attributes(script, "https://x.example/", "", "")
    assert row["structured"] == {"json_ld": [{"price": None, "size": 1.5}]}


def test_a_copyright_of_many_years_takes_no_time() -> None:
    years = ", ".join(map(str, range(1978, 2010)))
    began_s = time.process_time()
    row = read_attributes(f"<p>© {years} 7</p>", "https://x.example/", "", "")
    assert time.process_time() - began_s < 0.5
    assert row["owner"] is None
    row = read_attributes(f"<p>© {years}, Example Inc.</p>", "https://x.example/", "", "")
    assert row["owner"] == "Example Inc"


def page(body: str, url: str = "https://x.example/") -> PageToRead:
    return PageToRead(url, body.encode(), "utf-8", "en", "", "2026-11-17T00:00:00.000Z")


def test_a_page_that_takes_forever_has_an_empty_row_and_the_next_one_a_full_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reader = PageReader(None)
    try:
        hostile = json.loads(reader.read(page(NESTED, "https://x.example/deep")))
        good = json.loads(reader.read(page("<title>Good</title>")))
    finally:
        reader.close()
    assert tuple(hostile) == tuple(good) == COLUMNS
    said = {name: value for name, value in hostile.items() if value is not None}
    assert said.keys() == {"url", "fetched_at", "problem", "lease"}
    assert said["url"] == "https://x.example/deep"
    assert said["problem"] == "takes more than 2 s of computing"
    assert (good["title"], good["problem"]) == ("Good", None)
    assert "No attributes of https://x.example/deep" in caplog.text


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The helpers that were started."""
    found: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            found.append(self)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    return found


def test_a_helper_that_was_killed_costs_the_next_page_nothing(
    started: list[subprocess.Popen[bytes]],
) -> None:
    reader = PageReader(None)
    try:
        reader.read(page("<title>First</title>"))
        os.killpg(started[0].pid, signal.SIGKILL)
        os.waitid(os.P_PID, started[0].pid, os.WEXITED | os.WNOWAIT)
        second = json.loads(reader.read(page("<title>Second</title>")))
        reader.read(page(NESTED))
    finally:
        reader.close()
    assert second["title"] == "Second"
    assert len(started) == 2  # a page that takes forever is not asked for twice


def test_a_site_whose_pages_take_forever_has_ever_less_time_and_others_have_theirs(
    monkeypatch: pytest.MonkeyPatch, started: list[subprocess.Popen[bytes]]
) -> None:
    monkeypatch.setattr(reader_module, "PAGE_S", 0.5)
    reader = PageReader(None)
    try:
        hosts = ["x.example", "www.x.example", "x.example", "x.example", "y.example"]
        rows = [json.loads(reader.read(page(NESTED, f"https://{host}/"))) for host in hosts]
        good = json.loads(reader.read(page("<title>Good</title>", "https://x.example/good")))
    finally:
        reader.close()
    limits = [0.5, 0.25, 0.125, 0.125, 0.5]
    assert [row["problem"] for row in rows] == [
        f"takes more than {limit_s} s of computing" for limit_s in limits
    ]
    assert good["title"] == "Good"
    assert len(started) == 1  # to read on takes no new start


@contextmanager
def no_file_may_be_opened() -> Iterator[None]:
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (least, most))


def test_no_page_is_blamed_for_a_machine_without_room_for_a_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(reader_module, "START_AGAIN_S", (0.0,))
    table = AttributeTable(tmp_path, "w1", None, rotate_bytes=1e9, rotate_s=1e9)
    with no_file_may_be_opened():
        table.add(page("<title>Good</title>"))
        table.add(page("<title>Good</title>"))
        with pytest.raises(ReaderFailed, match=r"cannot start .*Too many open files.*ulimit"):
            table.save()
    with pytest.raises(ReaderFailed):
        table.close()
    assert not list(tmp_path.iterdir())


def test_a_helper_starts_once_there_is_room_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    start, refusals = subprocess.Popen, [OSError(errno.EAGAIN, "no room")]

    def start_later(*args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        if refusals:
            raise refusals.pop()
        return start(*args, **kwargs)

    monkeypatch.setattr(reader_module, "START_AGAIN_S", (0.0,))
    monkeypatch.setattr(subprocess, "Popen", start_later)
    reader = PageReader(None)
    try:
        assert json.loads(reader.read(page("<title>Good</title>")))["title"] == "Good"
    finally:
        reader.close()


def test_only_pages_that_satisfy_the_rule_have_a_line() -> None:
    reader = PageReader('title contains good and not text matches "b.d"')
    try:
        assert reader.read(page("<title>Good</title>"))
        assert not reader.read(page("<title>Good</title><p>bad"))
        assert not reader.read(page("<title>Other</title>"))
    finally:
        reader.close()


def test_nothing_goes_on_where_pages_cannot_be_read_at_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "resiliparse.py").write_text("raise ImportError('built for another machine')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    table = AttributeTable(tmp_path, "w1", None, rotate_bytes=1e9, rotate_s=1e9)
    table.add(page("<title>Good</title>"))
    with pytest.raises(ReaderFailed, match="ended with 1 before it began"):
        table.save()
    with pytest.raises(ReaderFailed):
        table.close()


def test_rows_are_on_disk_once_they_are_saved_and_files_are_rotated(tmp_path: Path) -> None:
    (tmp_path / "attributes-w1-0001.jsonl").write_bytes(b"of an earlier run")
    table = AttributeTable(tmp_path, "w1", None, rotate_bytes=1, rotate_s=1e9)
    for name in ("a", "b"):
        table.add(page(f"<title>{name}</title>", f"https://x.example/{name}"))
        table.save()
    parts = sorted(tmp_path.glob("attributes-*.jsonl"))
    titles = [json.loads(part.read_bytes())["title"] for part in parts[1:]]
    table.close()
    assert titles == ["a", "b"]
    assert parts[0].read_bytes() == b"of an earlier run"


def test_a_worker_learns_that_too_many_pages_wait(tmp_path: Path) -> None:
    table = AttributeTable(tmp_path, "w1", "title is missing", rotate_bytes=1e9, rotate_s=1e9)
    assert not table.is_behind
    for _ in range(MOST_PAGES + 1):
        table.add(page("<title>Good</title>"))
    assert table.is_behind
    table.save()
    assert not table.is_behind
    table.close()
    assert not list(tmp_path.iterdir())
