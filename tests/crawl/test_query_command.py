"""`scrapy query` as a process: limits that hold whatever the question, and what is printed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.crawl.command_line import Ended, assert_one_line, in_output
from tests.servers.fleet import Fleet
from tests.unit.written_parts import as_csv, page


@pytest.fixture
def temporary(fleet: Fleet, tmp_path: Path) -> Path:
    """A crawl of one page, and the folder for temporary files."""
    site = fleet.output / "site"
    site.mkdir(parents=True)
    (site / "pages-w1-0001.csv").write_bytes(as_csv(page("http://a/", 1, title="\x1b[2J")))
    made = tmp_path / "temporary"
    made.mkdir()
    fleet.env["TMPDIR"] = str(made)
    return made


def ask(fleet: Fleet, sql: str, *options: str) -> Ended:
    return in_output(fleet, "query", "site", sql, *options)


def test_a_function_that_takes_more_memory_than_the_question_may_is_refused(
    fleet: Fleet, temporary: Path
) -> None:
    ended = ask(fleet, "SELECT len(range(60_000_000)) FROM pages", "--memory", "100")
    assert_one_line(ended, 1, "too much for 100 MB of memory", "--memory")
    assert not list(temporary.iterdir())


def test_a_question_that_cannot_be_interrupted_ends_soon_after_its_time_and_leaves_nothing(
    fleet: Fleet, temporary: Path, tmp_path: Path
) -> None:
    slow = "SELECT levenshtein(repeat('a', 200_000), repeat('b', 200_000)) FROM pages"
    began_s = time.monotonic()
    ended = ask(fleet, slow, "--timeout", "0.5", "-o", str(tmp_path / "answer.csv"))
    assert_one_line(ended, 1, "no answer within 0.5 s: ask for less, or give --timeout")
    assert time.monotonic() - began_s < 20
    assert not list(temporary.iterdir())
    assert not list(tmp_path.glob("*answer*"))


def test_a_question_within_its_limits_is_answered(fleet: Fleet, temporary: Path) -> None:
    ended = ask(fleet, "SELECT url FROM pages", "--memory", "100", "--timeout", "60")
    assert (ended.returncode, ended.stderr) == (0, "") and "http://a/" in ended.stdout
    assert not list(temporary.iterdir())


def test_what_a_page_says_does_nothing_to_the_terminal_in_an_error(
    fleet: Fleet, temporary: Path
) -> None:
    ended = ask(fleet, "SELECT title::INT FROM pages")
    assert_one_line(ended, 2, "\\x1b[2J")
    assert "\x1b" not in ended.stderr
