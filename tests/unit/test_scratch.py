"""Temporary files go with their process, however that ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from crawlproj.output import scratch
from crawlproj.output.scratch import Scratch
from tests.servers.redis import wait_for
from tests.unit.written_parts import as_csv, page

OWNER = "import time; from crawlproj.output.scratch import Scratch; kept = Scratch('test')"
TABLES = """
import time
from pathlib import Path
from crawlproj.operate.files_command import end_with_sigterm
from crawlproj.output.tables import open_tables
end_with_sigterm()
with open_tables(Path('.')) as tables:
"""
ENDLESS = "SELECT max(sin(a + b)) FROM range(1000000) x(a), range(1000000) y(b)"
ASKED = "crawlproj-query-*/crawlproj-tables-*/written"
"""A folder that is there once the tables are, and the question is asked."""
PROJECT = Path(__file__).parents[2]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "temporary"
    made.mkdir()
    monkeypatch.setenv("TMPDIR", str(made))
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    monkeypatch.setattr(scratch, "YOUNG_S", 0)
    return made


def started(code: str) -> subprocess.Popen[str]:
    """A process that has said that it is ready."""
    made = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert made.stdout is not None
    assert made.stdout.readline() == "ready\n"
    return made


def ended(process: subprocess.Popen[str], by: signal.Signals) -> int:
    process.send_signal(by)
    process.communicate(timeout=60)
    return process.returncode


def test_what_a_killed_process_has_left_is_removed_by_the_next(temporary: Path) -> None:
    owner = started(f"{OWNER}; print('ready', flush=True); time.sleep(600)")
    first = Scratch("test")
    assert len(list(temporary.iterdir())) == 2  # the owner lives
    ended(owner, signal.SIGKILL)
    second = Scratch("test")
    assert set(temporary.iterdir()) == {first.path, second.path}
    first.close()
    second.close()
    assert not list(temporary.iterdir())


def test_what_a_killed_query_has_left_is_removed_by_the_next_command(
    temporary: Path, tmp_path: Path
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/pages-w1-0001.csv").write_bytes(as_csv(page("http://a/")))
    words = ["query", "site", f"{ENDLESS}, pages", "-s", f"CRAWL_OUTPUT={tmp_path}"]
    with subprocess.Popen([sys.executable, "-m", "scrapy", *words], cwd=PROJECT) as asking:
        try:
            wait_for(lambda: asking.poll() or [*temporary.glob(ASKED)], "a query with its tables")
        finally:
            asking.kill()
    assert asking.returncode == -signal.SIGKILL
    Scratch("test").close()
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(
    "work",
    [
        "time.sleep(600)",
        f"tables.ask('{ENDLESS}')",
    ],
    ids=["idle", "asking"],
)
def test_a_command_that_is_told_to_end_takes_its_tables_with_it(temporary: Path, work: str) -> None:
    process = started(f"{TABLES}    print('ready', flush=True)\n    {work}")
    assert ended(process, signal.SIGTERM) != 0
    assert not list(temporary.iterdir())
