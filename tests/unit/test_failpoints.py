"""The points at which a worker can be made to die."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from crawlproj import failpoints

ARRIVALS = "from crawlproj.failpoints import reached; [print(reached('leased'), n) for n in '1234']"


def run(text: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-uc", ARRIVALS],
        env={failpoints.VARIABLE: text},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(
    ("text", "code", "arrivals"),
    [
        ("", 0, 4),
        ("settle:1", 0, 4),
        ("leased:5", 0, 4),
        ("leased:3", -signal.SIGKILL, 2),
        ("leased:1", -signal.SIGKILL, 0),
    ],
)
def test_a_process_dies_at_the_arrival_that_is_named_and_at_no_other(
    text: str, code: int, arrivals: int
) -> None:
    found, lines = run(text)
    assert (found, len(lines)) == (code, arrivals)


@pytest.mark.parametrize("text", ["settle", "settle:", "settle:0", "settle:-1", "lunch:1", ":1"])
def test_what_cannot_be_meant_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(SystemExit, match=f"^CRAWL_FAILPOINT={text}: give one of leased,.*$"):
        failpoints.from_text(text)
